// The stand-in's functions. A call that NCCL may do later is *postponed*: it is in progress until
// the caller has polled for it some times, and only then is its work put into the stream.
#include "stand_in.h"

#include <optional>
#include <set>

#include "work.h"

using lockstep::Operation;
using lockstep::Type;
using lockstep::transport::nccl::Config;
using lockstep::transport::nccl::DataType;
using lockstep::transport::nccl::Reduction;
using lockstep::transport::nccl::Result;
using lockstep::transport::nccl::UniqueId;

namespace lockstep::transport::nccl {

struct Comm {
  std::shared_ptr<nccl_stand_in::CommState> state = std::make_shared<nccl_stand_in::CommState>();
  int polls_left = 0;
  std::function<void()> postponed = nullptr;
  bool connecting = true;
  bool finalized = false;
};

}  // namespace lockstep::transport::nccl

namespace lockstep::nccl_stand_in {
namespace {

using transport::nccl::Comm;

Control& control() {
  static Control one;
  return one;
}

std::set<Comm*>& living() {  // guarded by control().mutex
  static std::set<Comm*> comms;
  return comms;
}

// The group that this thread has started.
struct Group {
  int depth = 0;
  Comm* comm = nullptr;
  Stream* stream = nullptr;
  std::vector<Message> messages;
  bool wrong = false;
};
thread_local Group group;

void complain(const std::string& what) {
  const std::lock_guard lock(control().mutex);
  control().violations.push_back(what);
}

Result wrong(const std::string& what) {
  complain(what);
  return Result::invalid_argument;
}

bool lives(Comm* comm) {
  const std::lock_guard lock(control().mutex);
  return living().contains(comm);
}

// Notes the call; returns what fault it is to have.
Fault note(const Call& call) {
  Control& all = control();
  const std::lock_guard lock(all.mutex);
  int before = 0;
  for (const Call& other : all.calls)
    before += other.rank == call.rank && other.function == call.function ? 1 : 0;
  all.calls.push_back(call);
  const bool chosen = all.fault_rank == call.rank && all.fault_function == call.function &&
                      all.fault_call == before;
  return chosen ? all.fault : Fault::none;
}

// Why a call that puts work into a stream may not be made; nothing if it may.
std::optional<std::string> objection(Comm* comm, void* handle, const void* data, size_t bytes) {
  if (!lives(comm)) return "a communicator that does not exist (any more) is used";
  if (comm->finalized) return "a finalized communicator is used";
  if (comm->polls_left > 0 || comm->connecting)
    return "a call is made while another is in progress";
  auto* const stream = static_cast<Stream*>(handle);
  if (stream == nullptr || stream->magic != Stream::kMagic) return "that is no stream";
  if (stream->device != comm->state->device) return "the stream is another device's";
  if (data == nullptr && bytes > 0) return "the buffer is null";
  if (bytes > 0 && !stream->owns(data, bytes)) return "the buffer is not in the device's memory";
  return std::nullopt;
}

void put(const std::shared_ptr<CommState>& state, Stream* stream, Fault fault,
         std::function<void()> job) {
  ++state->unfinished;
  stream->put([state, fault, moved = std::move(job)] {
    if (fault == Fault::async_error) state->error = control().result;
    if (fault == Fault::none)
      moved();
    else
      state->hang();
    --state->unfinished;
  });
}

// In progress until it has been polled for.
Result postpone(Comm* comm, std::function<void()> action) {
  comm->postponed = std::move(action);
  comm->polls_left = control().polls_in_progress;
  if (comm->polls_left > 0) return Result::in_progress;
  comm->postponed();
  return Result::success;
}

size_t size_of(DataType type) {
  switch (type) {
    case DataType::i8:
    case DataType::u8:
      return 1;
    case DataType::f16:
    case DataType::bf16:
      return 2;
    case DataType::i32:
    case DataType::f32:
      return 4;
    case DataType::i64:
    case DataType::f64:
      return 8;
  }
  return 0;
}

std::optional<Type> type_of(DataType type) {
  switch (type) {
    case DataType::i8:
      return Type::i8;
    case DataType::u8:
      return Type::u8;
    case DataType::f16:
      return Type::f16;
    case DataType::bf16:
      return Type::bf16;
    case DataType::i32:
      return Type::i32;
    case DataType::f32:
      return Type::f32;
    case DataType::i64:
      return Type::i64;
    case DataType::f64:
      return Type::f64;
  }
  return std::nullopt;
}

Result add_message(Message::Direction direction, void* data, size_t count, DataType type, int peer,
                   Comm* comm, void* stream) {
  const char* const name = direction == Message::Direction::send ? "ncclSend" : "ncclRecv";
  const int rank = lives(comm) ? comm->state->rank : -1;
  const Fault fault = note({rank, name, stream, count, peer});
  if (fault == Fault::refused) return control().result;
  const auto refuse = [&](const std::string& why) {
    group.wrong = true;
    return wrong(std::string(name) + ": " + why);
  };
  if (size_of(type) == 0) return refuse("there is no such type");
  const size_t bytes = count * size_of(type);
  if (const auto why = objection(comm, stream, data, bytes)) return refuse(*why);
  if (peer < 0 || peer >= comm->state->world || peer == rank)
    return refuse("there is no such peer");
  if (group.depth == 0) return refuse("it is in no group, and would wait for its peer");
  if (group.comm != nullptr && (group.comm != comm || group.stream != stream))
    return refuse("one group is for one communicator and stream here");
  group.comm = comm;
  group.stream = static_cast<Stream*>(stream);
  group.messages.push_back({direction, static_cast<std::byte*>(data), bytes, peer});
  return Result::success;
}

}  // namespace
}  // namespace lockstep::nccl_stand_in

using namespace lockstep::nccl_stand_in;  // NOLINT: all that follows is NCCL's interface
using lockstep::transport::nccl::Comm;

extern "C" {

Control* nccl_stand_in_control() {
  return &control();
}

Result ncclGetVersion(int* version) {
  *version = control().version;
  return Result::success;
}

const char* ncclGetErrorString(Result result) {
  switch (result) {
    case Result::unhandled_cuda_error:
      return "unhandled cuda error";
    case Result::remote_error:
      return "remote process exited or there was a network error";
    case Result::invalid_usage:
      return "invalid usage";
    case Result::system_error:
      return "unhandled system error";
    default:
      return "another error";
  }
}

const char* ncclGetLastError(Comm* /*comm*/) {
  return "the stand-in was told to fail";
}

Result ncclGetUniqueId(UniqueId* id) {
  if (note({0, "ncclGetUniqueId"}) == Fault::refused) return control().result;
  const SharedFile file = make_shared_file();
  std::memcpy(id->bytes.data(), &file, sizeof file);
  return Result::success;
}

Result ncclCommInitRankConfig(Comm** made, int world, UniqueId id, int rank, Config* config) {
  *made = nullptr;
  const Fault fault = note({rank, "ncclCommInitRankConfig"});
  if (fault == Fault::refused) return control().result;
  if (config == nullptr || config->magic != 0xcafebeef || config->size < sizeof(Config) ||
      config->version < 21400)
    return wrong("ncclCommInitRankConfig: the configuration is not initialised");
  if (config->blocking != 0) return wrong("ncclCommInitRankConfig: the communicator would block");
  if (world < 1 || world > kMostRanks || rank < 0 || rank >= world)
    return wrong("ncclCommInitRankConfig: there is no such rank");
  SharedFile file;
  std::memcpy(&file, id.bytes.data(), sizeof file);
  auto comm = std::make_unique<Comm>();
  comm->state->rank = rank;
  comm->state->world = world;
  comm->state->complain = complain;
  comm->state->shared = map_shared_file(file);
  if (comm->state->shared == nullptr) return wrong("ncclCommInitRankConfig: there is no such id");
  {
    const std::lock_guard lock(control().mutex);
    const auto device = control().current_devices.find(std::this_thread::get_id());
    if (device == control().current_devices.end())
      control().violations.emplace_back("ncclCommInitRankConfig: no device is current");
    else
      comm->state->device = device->second;
    living().insert(comm.get());
  }
  if (fault == Fault::async_error) comm->state->error = control().result;
  if (fault != Fault::hang) ++comm->state->shared->connected;
  comm->polls_left = control().polls_in_progress;
  *made = comm.release();
  return Result::in_progress;
}

Result ncclCommGetAsyncError(Comm* comm, Result* error) {
  if (!lives(comm)) return wrong("ncclCommGetAsyncError: there is no such communicator");
  CommState& state = *comm->state;
  *error = state.error;
  if (*error != Result::success) return Result::success;
  *error = Result::in_progress;
  if (comm->polls_left > 0 && --comm->polls_left > 0) return Result::success;
  if (comm->connecting) {
    if (state.shared->connected < state.world) return Result::success;
    comm->connecting = false;
  }
  if (comm->postponed != nullptr) std::exchange(comm->postponed, nullptr)();
  if (comm->finalized && state.shared->finalized < state.world) return Result::success;
  *error = Result::success;
  return Result::success;
}

Result ncclGroupStart() {
  if (group.depth++ > 0) complain("ncclGroupStart: groups are not nested here");
  group = {.depth = group.depth};
  return Result::success;
}

Result ncclGroupEnd() {
  if (group.depth == 0) return wrong("ncclGroupEnd: no group was started");
  const Group ended = std::exchange(group, {});
  const int rank = ended.comm != nullptr ? ended.comm->state->rank : -1;
  const Fault fault = note({rank, "ncclGroupEnd", ended.stream, ended.messages.size()});
  if (fault == Fault::refused) return control().result;
  if (ended.wrong) return Result::invalid_argument;
  if (ended.comm == nullptr) return Result::success;
  const auto state = ended.comm->state;
  return postpone(ended.comm, [=] {
    put(state, ended.stream, fault, [=] { state->move_all(ended.messages); });
  });
}

Result ncclSend(const void* data, size_t count, DataType type, int peer, Comm* comm, void* stream) {
  return add_message(Message::Direction::send, const_cast<void*>(data), count, type, peer, comm,
                     stream);
}

Result ncclRecv(void* data, size_t count, DataType type, int peer, Comm* comm, void* stream) {
  return add_message(Message::Direction::receive, data, count, type, peer, comm, stream);
}

Result ncclAllReduce(const void* from, void* into, size_t count, DataType type, Reduction reduction,
                     Comm* comm, void* stream) {
  const Fault fault = note({lives(comm) ? comm->state->rank : -1, "ncclAllReduce", stream, count});
  if (fault == Fault::refused) return control().result;
  const auto elements = type_of(type);
  if (!elements) return wrong("ncclAllReduce: there is no such type");
  if (reduction != Reduction::sum && reduction != Reduction::min && reduction != Reduction::max)
    return wrong("ncclAllReduce: there is no such operation");
  const size_t bytes = count * size_of(type);
  for (const void* const data : {from, static_cast<const void*>(into)})
    if (const auto why = objection(comm, stream, data, bytes))
      return wrong("ncclAllReduce: " + *why);
  const Operation operation = reduction == Reduction::min   ? Operation::min
                              : reduction == Reduction::max ? Operation::max
                                                            : Operation::sum;
  const auto state = comm->state;
  return postpone(comm, [=] {
    put(state, static_cast<Stream*>(stream), fault, [=] {
      state->all_reduce(static_cast<const std::byte*>(from), static_cast<std::byte*>(into), bytes,
                        *elements, operation);
    });
  });
}

Result ncclCommFinalize(Comm* comm) {
  if (!lives(comm)) return wrong("ncclCommFinalize: there is no such communicator");
  note({comm->state->rank, "ncclCommFinalize"});
  if (comm->polls_left > 0 || comm->finalized)
    return wrong("ncclCommFinalize: another call is in progress");
  comm->finalized = true;
  ++comm->state->shared->finalized;
  return Result::in_progress;
}

Result ncclCommDestroy(Comm* comm) {
  if (!lives(comm)) return wrong("ncclCommDestroy: there is no such communicator");
  note({comm->state->rank, "ncclCommDestroy"});
  if (!comm->finalized) complain("ncclCommDestroy: it was not finalized");
  if (comm->state->unfinished > 0) complain("ncclCommDestroy: its work is not done");
  const std::lock_guard lock(control().mutex);
  living().erase(comm);
  delete comm;
  return Result::success;
}

Result ncclCommAbort(Comm* comm) {
  if (!lives(comm)) return wrong("ncclCommAbort: there is no such communicator");
  note({comm->state->rank, "ncclCommAbort"});
  comm->state->aborted = true;
  const std::lock_guard lock(control().mutex);
  living().erase(comm);
  delete comm;
  return Result::success;
}
}
