// Collectives on tensors. A communicator works on contiguous memory, which is the host's, or that
// of the device that its transport carries; a TensorCall is a call of it, the memory that it works
// on, and how that becomes the result.
#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "lockstep/world.h"
#include "parallel/tensor_buffer.h"
#include "parallel/world_state.h"

namespace lockstep {

using collective::Buffer;
using collective::Collective;
using collective::Communicator;
using parallel::buffer_of;
using parallel::TensorCall;

struct parallel::TensorCall {
  collective::Call call;
  std::vector<at::Tensor> memory;  ///< contiguous
  std::function<at::Tensor()> finish;

  std::vector<Buffer> buffers(Communicator& group) const {
    std::vector<Buffer> all;
    for (const at::Tensor& each : memory) all.push_back(buffer_of(each, group));
    return all;
  }
};

struct Started::State {
  std::shared_ptr<World::State> world;  ///< its communicator runs the collective
  collective::Pending pending;
  std::function<at::Tensor()> finish;
  std::optional<at::Tensor> result = std::nullopt;
};

namespace {

// A negative view (of an imaginary part) is not what its memory holds.
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_neg();
}

// The tensor itself, or a contiguous copy, in host memory if the group does not carry the device's.
// Throws BadInput if it cannot be sent.
at::Tensor contiguous(const at::Tensor& tensor, Communicator& group) {
  if (tensor.defined() && tensor.layout() != at::kStrided)
    throw BadInput("tensor is sparse: expected a dense one; call .to_dense()");
  const at::NoGradGuard no_grad;
  at::Tensor memory =
      !tensor.defined() || is_plain(tensor) ? tensor : tensor.resolve_neg().contiguous();
  if (memory.defined() && !parallel::is_carried(memory.device(), group)) memory = memory.cpu();
  buffer_of(memory, group);  // checks it
  return memory;
}

void require_writable(const at::Tensor& tensor) {
  if (tensor.defined() && tensor.layout() == at::kStrided &&
      at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
    throw BadInput("tensor of {} is expanded, so that its elements share memory; pass a .clone()",
                   fmt::join(tensor.sizes(), "x"));
}

// Afterwards `tensor` has the elements of `memory`, which may be its own.
at::Tensor written_back(const at::Tensor& tensor, const at::Tensor& memory) {
  const at::NoGradGuard no_grad;
  if (!memory.is_same(tensor))
    tensor.copy_(memory);
  else if (!tensor.is_inference())
    tensor.unsafeGetTensorImpl()->bump_version();  // so that autograd notices the change
  return tensor;
}

TensorCall in_place(const collective::Call& call, const at::Tensor& tensor, Communicator& group) {
  require_writable(tensor);
  const at::Tensor memory = contiguous(tensor, group);
  return {call, {memory}, [=] { return written_back(tensor, memory); }};
}

at::Tensor empty_rows(int64_t rows, const at::Tensor& row) {
  std::vector<int64_t> sizes = {rows};
  sizes.insert(sizes.end(), row.sizes().begin(), row.sizes().end());
  return at::empty(sizes, row.options().requires_grad(false));
}

// Rows of which one is the tensor. (Memory that is never touched costs nothing.)
at::Tensor rows_with(const at::Tensor& tensor, Communicator& group) {
  const at::Tensor memory = contiguous(tensor, group);
  const at::NoGradGuard no_grad;
  at::Tensor rows = empty_rows(group.world_size(), memory);
  rows.select(0, group.rank()).copy_(memory);
  return rows;
}

at::Tensor checked_rows(const at::Tensor& rows, Communicator& group) {
  at::Tensor memory = contiguous(rows, group);
  if (memory.dim() == 0 || memory.size(0) != group.world_size())
    throw BadInput("tensor of {}: expected one row for each of {} workers",
                   memory.dim() == 0 ? "one element" : parallel::describe(memory),
                   group.world_size());
  return memory;
}

void require_root(int root, Communicator& group) {
  if (root < 0 || root >= group.world_size())
    throw BadInput("root {}: no such worker; expected 0 to {}", root, group.world_size() - 1);
}

void require_peer(int peer, Communicator& group, const char* what) {
  if (peer < 0 || peer >= group.world_size() || peer == group.rank())
    throw BadInput("{} {}: expected another worker than this one, of 0 to {}", what, peer,
                   group.world_size() - 1);
}

TensorCall broadcast_call(Communicator& group, const at::Tensor& tensor, int root) {
  require_root(root, group);
  return in_place({.collective = Collective::broadcast, .root = root}, tensor, group);
}

// Other workers' memory is overwritten: theirs is a copy.
TensorCall reduce_call(Communicator& group, const at::Tensor& tensor, int root,
                       Operation operation) {
  require_root(root, group);
  const collective::Call call{
      .collective = Collective::reduce, .operation = operation, .root = root};
  if (group.rank() == root) return in_place(call, tensor, group);
  return {call, {contiguous(tensor, group).clone()}, [=] { return tensor; }};
}

TensorCall all_gather_call(Communicator& group, const at::Tensor& tensor) {
  const at::Tensor rows = rows_with(tensor, group);
  return {{.collective = Collective::all_gather}, {rows}, [=, device = tensor.device()] {
            return rows.to(device);
          }};
}

TensorCall gather_call(Communicator& group, const at::Tensor& tensor, int root) {
  require_root(root, group);
  const at::Tensor rows = rows_with(tensor, group);
  const bool is_root = group.rank() == root;
  return {{.collective = Collective::gather, .root = root}, {rows}, [=, device = tensor.device()] {
            return is_root ? rows.to(device) : at::Tensor();
          }};
}

TensorCall scatter_call(Communicator& group, const at::Tensor& rows, const at::Tensor& part,
                        int root) {
  require_root(root, group);
  require_writable(part);
  const at::Tensor expected = empty_rows(group.world_size(), contiguous(part, group));
  const bool is_root = group.rank() == root;
  // Where the part is decides on the memory: only the root has rows.
  at::Tensor memory = is_root ? checked_rows(rows, group).to(expected.device()) : expected;
  if (memory.sizes() != expected.sizes() || memory.scalar_type() != expected.scalar_type())
    throw BadInput("scatter: rows are {}, but the part is {}", parallel::describe(memory),
                   parallel::describe(part));
  return {{.collective = Collective::scatter, .root = root}, {memory}, [=, row = group.rank()] {
            return written_back(part, memory.select(0, row));
          }};
}

TensorCall reduce_scatter_call(Communicator& group, const at::Tensor& rows, Operation operation) {
  const at::Tensor memory = checked_rows(rows, group).clone();
  return {{.collective = Collective::reduce_scatter, .operation = operation},
          {memory},
          [=, row = group.rank(), device = rows.device()] {
            return memory.select(0, row).clone().to(device);
          }};
}

TensorCall all_to_all_call(Communicator& group, const at::Tensor& rows) {
  const at::Tensor memory = checked_rows(rows, group);
  const at::Tensor result = at::empty_like(memory, memory.options().requires_grad(false));
  return {{.collective = Collective::all_to_all}, {memory, result}, [=, device = rows.device()] {
            return result.to(device);
          }};
}

TensorCall send_call(Communicator& group, const at::Tensor& tensor, int to) {
  require_peer(to, group, "send to");
  return {{.collective = Collective::send_receive, .root = group.rank(), .peer = to},
          {contiguous(tensor, group)},
          [=] { return tensor; }};
}

TensorCall receive_call(Communicator& group, const at::Tensor& tensor, int from) {
  require_peer(from, group, "receive from");
  return in_place({.collective = Collective::send_receive, .root = from, .peer = group.rank()},
                  tensor, group);
}

// Both are sent and received in one memory.
TensorCall exchange_call(Communicator& group, const at::Tensor& outgoing, int to,
                         const at::Tensor& incoming, int from) {
  require_writable(incoming);
  at::Tensor received = contiguous(incoming, group);
  at::Tensor sent = contiguous(outgoing, group);
  if (received.device() != sent.device()) {
    received = received.cpu();
    sent = sent.cpu();
  }
  if (sent.is_alias_of(received)) sent = sent.clone();
  return {{.collective = Collective::exchange, .root = from, .peer = to}, {sent, received}, [=] {
            return written_back(incoming, received);
          }};
}

}  // namespace

at::Tensor Started::wait() {
  if (!state_) throw BadInput("Started::wait: nothing was started");
  state_->pending.wait();
  if (!state_->result) state_->result = state_->finish();
  return *state_->result;
}

bool Started::done() const {
  return !state_ || state_->pending.done();
}

at::Tensor World::run(const TensorCall& call) {
  state_->group->run(call.call, call.buffers(*state_->group));
  return call.finish();
}

Started World::start(const TensorCall& call) {
  Started started;
  auto memory = std::make_shared<const std::vector<at::Tensor>>(call.memory);
  started.state_ = std::make_shared<Started::State>(Started::State{
      state_, state_->group->start(call.call, call.buffers(*state_->group), std::move(memory)),
      call.finish});
  return started;
}

void World::all_reduce(const at::Tensor& tensor, Operation operation) {
  run(in_place({.operation = operation}, tensor, *state_->group));
}

void World::broadcast(const at::Tensor& tensor, int root) {
  run(broadcast_call(*state_->group, tensor, root));
}

std::string World::broadcast(const std::string& text, int root) {
  require_root(root, *state_->group);
  auto size = static_cast<int64_t>(text.size());
  state_->group->broadcast({reinterpret_cast<std::byte*>(&size), 1, Type::i64}, root);
  std::string result = rank() == root ? text : std::string(static_cast<size_t>(size), '\0');
  state_->group->broadcast({reinterpret_cast<std::byte*>(result.data()), size, Type::u8}, root);
  return result;
}

void World::reduce(const at::Tensor& tensor, int root, Operation operation) {
  run(reduce_call(*state_->group, tensor, root, operation));
}

at::Tensor World::all_gather(const at::Tensor& tensor) {
  return run(all_gather_call(*state_->group, tensor));
}

// Sizes first; then the elements, filled up to the longest.
std::vector<at::Tensor> World::all_gather_uneven(const at::Tensor& tensor) {
  const at::Tensor memory = contiguous(tensor, *state_->group);
  int64_t most_dimensions = memory.dim();
  int64_t most_elements = memory.numel();
  for (int64_t* const most : {&most_dimensions, &most_elements})
    state_->group->all_reduce({reinterpret_cast<std::byte*>(most), 1, Type::i64}, Operation::max);

  at::Tensor sizes = at::zeros({most_dimensions + 1}, at::kLong);
  sizes[0] = memory.dim();
  for (int64_t i = 0; i < memory.dim(); ++i) sizes[i + 1] = memory.size(i);
  const at::Tensor all_sizes = all_gather(sizes);

  const at::NoGradGuard no_grad;
  at::Tensor padded = at::zeros({most_elements}, memory.options().requires_grad(false));
  padded.slice(0, 0, memory.numel()).copy_(memory.flatten());
  const at::Tensor all = all_gather(padded);
  std::vector<at::Tensor> result;
  for (int64_t other = 0; other < size(); ++other) {
    const int64_t* const shape = all_sizes[other].data_ptr<int64_t>();
    const at::IntArrayRef dimensions(shape + 1, static_cast<size_t>(shape[0]));
    const int64_t elements = c10::multiply_integers(dimensions);
    result.push_back(
        all[other].slice(0, 0, elements).reshape(dimensions).clone().to(tensor.device()));
  }
  return result;
}

std::vector<std::string> World::all_gather(const std::string& text) {
  return state_->group->gather_texts(text);
}

at::Tensor World::gather(const at::Tensor& tensor, int root) {
  return run(gather_call(*state_->group, tensor, root));
}

void World::scatter(const at::Tensor& rows, const at::Tensor& part, int root) {
  run(scatter_call(*state_->group, rows, part, root));
}

at::Tensor World::reduce_scatter(const at::Tensor& rows, Operation operation) {
  return run(reduce_scatter_call(*state_->group, rows, operation));
}

at::Tensor World::all_to_all(const at::Tensor& rows) {
  return run(all_to_all_call(*state_->group, rows));
}

void World::barrier() {
  state_->group->barrier();
}

void World::send(const at::Tensor& tensor, int to) {
  run(send_call(*state_->group, tensor, to));
}

void World::receive(const at::Tensor& tensor, int from) {
  run(receive_call(*state_->group, tensor, from));
}

void World::exchange(const at::Tensor& outgoing, int to, const at::Tensor& incoming, int from) {
  run(exchange_call(*state_->group, outgoing, to, incoming, from));
}

Started World::all_reduce_async(const at::Tensor& tensor, Operation operation) {
  return start(in_place({.operation = operation}, tensor, *state_->group));
}

Started World::broadcast_async(const at::Tensor& tensor, int root) {
  return start(broadcast_call(*state_->group, tensor, root));
}

Started World::reduce_async(const at::Tensor& tensor, int root, Operation operation) {
  return start(reduce_call(*state_->group, tensor, root, operation));
}

Started World::all_gather_async(const at::Tensor& tensor) {
  return start(all_gather_call(*state_->group, tensor));
}

Started World::gather_async(const at::Tensor& tensor, int root) {
  return start(gather_call(*state_->group, tensor, root));
}

Started World::scatter_async(const at::Tensor& rows, const at::Tensor& part, int root) {
  return start(scatter_call(*state_->group, rows, part, root));
}

Started World::reduce_scatter_async(const at::Tensor& rows, Operation operation) {
  return start(reduce_scatter_call(*state_->group, rows, operation));
}

Started World::all_to_all_async(const at::Tensor& rows) {
  return start(all_to_all_call(*state_->group, rows));
}

Started World::send_async(const at::Tensor& tensor, int to) {
  return start(send_call(*state_->group, tensor, to));
}

Started World::receive_async(const at::Tensor& tensor, int from) {
  return start(receive_call(*state_->group, tensor, from));
}

Started World::exchange_async(const at::Tensor& outgoing, int to, const at::Tensor& incoming,
                              int from) {
  return start(exchange_call(*state_->group, outgoing, to, incoming, from));
}

}  // namespace lockstep
