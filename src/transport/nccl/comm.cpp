#include "transport/nccl/comm.h"

#include <fmt/format.h>

#include <optional>

namespace lockstep::transport::nccl {
namespace {

std::optional<DataType> data_type(Type type) {
  switch (type) {
    case Type::f32:
      return DataType::f32;
    case Type::f64:
      return DataType::f64;
    case Type::f16:
      return DataType::f16;
    case Type::bf16:
      return DataType::bf16;
    case Type::i32:
      return DataType::i32;
    case Type::i64:
      return DataType::i64;
    case Type::u8:
    case Type::boolean:
      return DataType::u8;
    case Type::i8:
      return DataType::i8;
    case Type::i16:
      break;
  }
  return std::nullopt;
}

Reduction reduction_of(Operation operation) {
  if (operation == Operation::min) return Reduction::min;
  if (operation == Operation::max) return Reduction::max;
  return Reduction::sum;
}

}  // namespace

bool has_type(Type type) {
  return data_type(type).has_value();
}

NcclComm::NcclComm(std::shared_ptr<const Library> library, int world, const UniqueId& id, int rank)
    : library_(std::move(library)), api_(library_->api()) {
  Config config;
  const MutexLock lock(mutex_);
  check(api_.comm_init_rank_config(&comm_, world, id, rank, &config), "ncclCommInitRankConfig");
}

NcclComm::~NcclComm() {
  abort();
}

Comm* NcclComm::usable() {
  if (comm_ == nullptr) throw Error("[nccl] the communicator was aborted");
  return comm_;
}

void NcclComm::check(Result result, const char* call) {
  if (result == Result::success || result == Result::in_progress) return;
  const char* const detail = api_.get_last_error(comm_);
  throw NcclError(result, fmt::format("[nccl] {}: {}{}{}; run with NCCL_DEBUG=WARN to see more",
                                      call, api_.get_error_string(result),
                                      detail != nullptr && *detail != '\0' ? ": " : "",
                                      detail != nullptr ? detail : ""));
}

bool NcclComm::settled() {
  const MutexLock lock(mutex_);
  Result state = Result::success;
  check(api_.comm_get_async_error(usable(), &state), "ncclCommGetAsyncError");
  check(state, "a call that did not block");
  return state == Result::success;
}

void NcclComm::exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                        Stream stream) {
  const MutexLock lock(mutex_);
  Comm* const comm = usable();
  check(api_.group_start(), "ncclGroupStart");
  // A group that was started must be ended, whatever happens in it.
  Result failed = Result::success;
  const char* failed_call = "";
  const auto note = [&](Result result, const char* call) {
    if (failed != Result::success || result == Result::success || result == Result::in_progress)
      return;
    failed = result;
    failed_call = call;
  };
  for (const Outgoing& message : outgoing)
    if (message.bytes > 0)
      note(api_.send(message.from, message.bytes, DataType::u8, message.peer, comm, stream),
           "ncclSend");
  for (const Incoming& message : incoming)
    if (message.bytes > 0)
      note(api_.receive(message.into, message.bytes, DataType::u8, message.peer, comm, stream),
           "ncclRecv");
  note(api_.group_end(), "ncclGroupEnd");
  check(failed, failed_call);
}

void NcclComm::all_reduce(std::byte* data, int64_t count, Type type, Operation operation,
                          Stream stream) {
  const auto nccl_type = data_type(type);
  if (!nccl_type)
    throw BadInput("algorithm engine: NCCL has no {}; choose another algorithm", name_of(type));
  const MutexLock lock(mutex_);
  check(api_.all_reduce(data, data, static_cast<size_t>(count), *nccl_type, reduction_of(operation),
                        usable(), stream),
        "ncclAllReduce");
}

void NcclComm::finalize() {
  const MutexLock lock(mutex_);
  check(api_.comm_finalize(usable()), "ncclCommFinalize");
}

void NcclComm::close() {
  const MutexLock lock(mutex_);
  Comm* const comm = usable();
  comm_ = nullptr;
  check(api_.comm_destroy(comm), "ncclCommDestroy");
}

void NcclComm::abort() noexcept {
  const MutexLock lock(mutex_);
  if (comm_ == nullptr) return;
  api_.comm_abort(comm_);
  comm_ = nullptr;
}

}  // namespace lockstep::transport::nccl
