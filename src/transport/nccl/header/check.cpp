// Compiled where NCCL's header is installed: the declarations of transport/nccl/api.h must agree
// with it. Types have other names here, so functions are compared by the sizes and kinds of what
// they take and return.
#include <cuda_bf16.h>  // with it, NCCL has bfloat16
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "transport/nccl/api.h"

namespace lockstep::transport::nccl {
namespace {

template <typename Ours, typename Theirs>
constexpr bool passed_alike() {
  return std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
         std::is_class_v<Ours> == std::is_class_v<Theirs> && sizeof(Ours) == sizeof(Theirs) &&
         alignof(Ours) == alignof(Theirs);
}

template <typename Ours, typename Theirs>
struct CalledAlike : std::false_type {};
template <typename Ours, typename... OurArguments, typename Theirs, typename... TheirArguments>
  requires(sizeof...(OurArguments) == sizeof...(TheirArguments))
struct CalledAlike<Ours (*)(OurArguments...), Theirs (*)(TheirArguments...)>
    : std::bool_constant<passed_alike<Ours, Theirs>() &&
                         (passed_alike<OurArguments, TheirArguments>() && ...)> {};

#define CHECK_CALL(ours, theirs) \
  static_assert(CalledAlike<decltype(Api::ours), decltype(&::theirs)>::value, #theirs)
CHECK_CALL(get_unique_id, ncclGetUniqueId);
CHECK_CALL(comm_init_rank_config, ncclCommInitRankConfig);
CHECK_CALL(comm_finalize, ncclCommFinalize);
CHECK_CALL(comm_destroy, ncclCommDestroy);
CHECK_CALL(comm_abort, ncclCommAbort);
CHECK_CALL(comm_get_async_error, ncclCommGetAsyncError);
CHECK_CALL(get_error_string, ncclGetErrorString);
CHECK_CALL(get_last_error, ncclGetLastError);
CHECK_CALL(group_start, ncclGroupStart);
CHECK_CALL(group_end, ncclGroupEnd);
CHECK_CALL(send, ncclSend);
CHECK_CALL(receive, ncclRecv);
CHECK_CALL(all_reduce, ncclAllReduce);
#undef CHECK_CALL
static_assert(CalledAlike<Result (*)(int*), decltype(&::ncclGetVersion)>::value);

#define CHECK_VALUE(ours, theirs) \
  static_assert(static_cast<int>(ours) == static_cast<int>(::theirs), #theirs)
CHECK_VALUE(Result::success, ncclSuccess);
CHECK_VALUE(Result::unhandled_cuda_error, ncclUnhandledCudaError);
CHECK_VALUE(Result::system_error, ncclSystemError);
CHECK_VALUE(Result::internal_error, ncclInternalError);
CHECK_VALUE(Result::invalid_argument, ncclInvalidArgument);
CHECK_VALUE(Result::invalid_usage, ncclInvalidUsage);
CHECK_VALUE(Result::remote_error, ncclRemoteError);
CHECK_VALUE(Result::in_progress, ncclInProgress);
CHECK_VALUE(DataType::i8, ncclInt8);
CHECK_VALUE(DataType::u8, ncclUint8);
CHECK_VALUE(DataType::i32, ncclInt32);
CHECK_VALUE(DataType::i64, ncclInt64);
CHECK_VALUE(DataType::f16, ncclFloat16);
CHECK_VALUE(DataType::f32, ncclFloat32);
CHECK_VALUE(DataType::f64, ncclFloat64);
CHECK_VALUE(DataType::bf16, ncclBfloat16);
CHECK_VALUE(Reduction::sum, ncclSum);
CHECK_VALUE(Reduction::min, ncclMin);
CHECK_VALUE(Reduction::max, ncclMax);
#undef CHECK_VALUE

constexpr ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
static_assert(Config().magic == kTheirs.magic);
static_assert(offsetof(Config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
static_assert(Config().version == NCCL_VERSION(2, 14, 0));
static_assert(kOldestVersion >= NCCL_VERSION(2, 14, 0) && kOldestVersion <= NCCL_VERSION_CODE);
static_assert(sizeof(UniqueId) == NCCL_UNIQUE_ID_BYTES);

}  // namespace
}  // namespace lockstep::transport::nccl
