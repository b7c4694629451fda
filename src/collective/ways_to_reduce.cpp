// The three ways in which a communicator runs a collective: in memory that ranks share, by a
// program that sends messages, or by the engine of a transport.
#include <algorithm>
#include <utility>

#include "collective/communicator.h"
#include "collective/plan/two_level.h"
#include "transport/device.h"
#include "transport/engine.h"

namespace lockstep::collective {
namespace {

constexpr size_t kMostPrograms = 256;
constexpr size_t kAlignment = 64;

size_t round_up(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// All numbers that the request's program depends on.
std::vector<int64_t> numbers_of(const Request& request, transport::Place place) {
  std::vector<int64_t> numbers = {static_cast<int64_t>(place),
                                  static_cast<int64_t>(request.collective),
                                  static_cast<int64_t>(request.broadcast_by),
                                  request.count,
                                  request.root,
                                  request.peer};
  const auto& bounds = request.shards.bounds();
  numbers.insert(numbers.end(), bounds.begin(), bounds.end());
  return numbers;
}

}  // namespace

void Communicator::in_shared_memory(const Call& call, std::span<const Buffer> terms,
                                    const Shards& shards) {
  term_places_.clear();
  for (const Buffer& term : terms) term_places_.push_back(term.data);
  widths_.clear();
  if (&shards != &one_each_)
    for (int other = 0; other < world_size(); ++other)
      for (const Term& term : shards.terms_of(other)) widths_.push_back(term.width());
  const int64_t divide_by = call.operation == Operation::mean ? call.shards : 1;
  const auto results = call.collective == Collective::all_reduce ? SharedDirect::Results::of_all
                                                                 : SharedDirect::Results::own_slice;
  count(shared_direct_->reduce(
      label_of(call),
      {term_places_, widths_, results, call.count, call.type, call.operation, divide_by},
      transport_->for_host_memory(), Deadline::in(options_.timeout_seconds)));
}

// Canonical plans add the same way whatever the size of a bucket. In pieces, what was added is
// still in a cache when it is sent. Messages are labelled with the whole call, so that ranks whose
// buckets differ notice it with the first piece.
void Communicator::in_pieces(const Call& call, std::span<const Buffer> terms,
                             const Shards& shards) {
  const bool may_cut = call.collective == Collective::all_reduce && call.algorithm.is_canonical();
  const size_t element = bytes_of(call.type);
  const auto most = static_cast<int64_t>(carrier(terms[0].place).bytes_at_a_time() / element);
  if (!may_cut || most == 0) return by_program(call, terms, shards);
  std::vector<Buffer> pieces(terms.begin(), terms.end());
  for (int64_t begin = 0; begin == 0 || begin < call.count; begin += most) {
    for (size_t i = 0; i < pieces.size(); ++i) {
      pieces[i].data = terms[i].data + static_cast<size_t>(begin) * element;
      pieces[i].count = std::min(most, call.count - begin);
    }
    by_program(call, pieces, shards);
  }
}

// `terms` may be a piece of what the call is about.
void Communicator::by_program(const Call& call, std::span<const Buffer> terms,
                              const Shards& shards) {
  const transport::Place place = terms[0].place;
  const Program& program = program_for({.collective = call.collective,
                                        .algorithm = call.algorithm,
                                        .broadcast_by = call.broadcast_by,
                                        .shards = shards,
                                        .count = terms[0].count,
                                        .root = call.root,
                                        .peer = call.peer},
                                       place);
  const std::vector<std::byte*> slots = lay_out(program, terms);
  const int64_t divide_by = call.operation == Operation::mean ? call.shards : 1;
  collective::run(program, {slots, call.type, call.operation, divide_by}, carrier(place),
                  label_of(call), Deadline::in(options_.timeout_seconds));
  count(program.sent() * static_cast<int64_t>(bytes_of(call.type)));
}

void Communicator::by_engine(const Call& call, std::span<const Buffer> terms) {
  transport::Transport& transport = carrier(terms[0].place);
  transport::Engine* const engine = transport.engine();
  if (engine == nullptr)
    throw BadInput("algorithm {}: transport {} has no all-reduce of its own; mpi and nccl have",
                   call.algorithm.name(), transport.name());
  if (terms.size() != 1)
    throw BadInput("algorithm {}: rank {} has {} terms, but it adds only one a rank",
                   call.algorithm.name(), rank(), terms.size());
  engine->all_reduce(terms[0].data, call.count, call.type, call.operation,
                     Deadline::in(options_.timeout_seconds));
  if (call.operation == Operation::mean)
    arithmetic(terms[0].place).divide(terms[0].data, terms[0].bytes(), call.type, call.shards);
  count(2 * static_cast<int64_t>(terms[0].bytes()) * (world_size() - 1) / world_size());
}

Plan Communicator::plan_for(const Request& request) const {
  if (request.collective == Collective::all_reduce && in_two_levels_)
    return two_level(transport_->hosts(), request.algorithm, request.shards, request.count);
  return plan_of(request);
}

const Program& Communicator::program_for(const Request& request, transport::Place place) {
  ProgramKey key{request.algorithm, numbers_of(request, place)};
  if (const auto found = programs_.find(key); found != programs_.end()) return found->second;
  if (programs_.size() >= kMostPrograms) programs_.clear();
  const Folding folding =
      place == transport::Place::host ? Folding::while_arriving : Folding::afterwards;
  return programs_.emplace(std::move(key), Program(plan_for(request), rank(), folding))
      .first->second;
}

// Terms come first; the scratch slots that the program uses lie one after another in one
// allocation.
std::vector<std::byte*> Communicator::lay_out(const Program& program,
                                              std::span<const Buffer> terms) {
  const size_t stride = round_up(terms[0].bytes());
  size_t scratch_slots = 0;
  for (int slot = static_cast<int>(terms.size()); slot < program.slots(); ++slot)
    scratch_slots += program.uses(slot) ? 1 : 0;
  transport::Memory& scratch = scratch_[static_cast<size_t>(terms[0].place)];
  if (scratch.bytes < scratch_slots * stride) {
    scratch = {};
    scratch = allocate(scratch_slots * stride, terms[0].place);
  }
  std::vector<std::byte*> slots;
  for (const Buffer& term : terms) slots.push_back(term.data);
  std::byte* next = scratch.data.get();
  for (int slot = static_cast<int>(terms.size()); slot < program.slots(); ++slot) {
    slots.push_back(next);
    if (program.uses(slot)) next += stride;
  }
  return slots;
}

}  // namespace lockstep::collective
