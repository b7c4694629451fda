#include "transport/nccl/api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "lockstep/error.h"

namespace lockstep::transport::nccl {
namespace {

constexpr const char* kVariable = "LOCKSTEP_NCCL";
constexpr const char* kUsualName = "libnccl.so.2";

// Sets a member of Api to the function of that name.
template <typename Function>
void find(void* library, const std::string& path, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr)
    throw BadInput("transport nccl: {} has no function {}; install NCCL {} or later", path, name,
                   version_text(kOldestVersion));
}

Api functions_of(void* library, const std::string& path) {
  Api api = {};
  find(library, path, "ncclGetUniqueId", api.get_unique_id);
  find(library, path, "ncclCommInitRankConfig", api.comm_init_rank_config);
  find(library, path, "ncclCommFinalize", api.comm_finalize);
  find(library, path, "ncclCommDestroy", api.comm_destroy);
  find(library, path, "ncclCommAbort", api.comm_abort);
  find(library, path, "ncclCommGetAsyncError", api.comm_get_async_error);
  find(library, path, "ncclGetErrorString", api.get_error_string);
  find(library, path, "ncclGetLastError", api.get_last_error);
  find(library, path, "ncclGroupStart", api.group_start);
  find(library, path, "ncclGroupEnd", api.group_end);
  find(library, path, "ncclSend", api.send);
  find(library, path, "ncclRecv", api.receive);
  find(library, path, "ncclAllReduce", api.all_reduce);
  return api;
}

// The version first: an old library lacks some of the functions.
int version_of(void* library, const std::string& path) {
  Result (*get_version)(int*) = nullptr;
  find(library, path, "ncclGetVersion", get_version);
  int version = 0;
  if (get_version(&version) != Result::success || version < kOldestVersion)
    throw BadInput("transport nccl: {} is NCCL {}, which is too old; install NCCL {} or later",
                   path, version_text(version), version_text(kOldestVersion));
  return version;
}

}  // namespace

std::string version_text(int version) {
  // Up to 2.8 there was a digit for the minor version.
  const int major = version < 10'000 ? version / 1'000 : version / 10'000;
  const int rest = version < 10'000 ? version % 1'000 : version % 10'000;
  return fmt::format("{}.{}.{}", major, rest / 100, rest % 100);
}

std::shared_ptr<const Library> Library::load() {
  const char* const chosen = std::getenv(kVariable);
  const std::string path = chosen != nullptr ? chosen : kUsualName;
  const std::shared_ptr<Library> library(new Library);
  library->handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->handle_ == nullptr) {
    const char* const why = dlerror();
    throw BadInput(
        "transport nccl: cannot load {} ({}); install NCCL (Debian: libnccl2), or set {} to the "
        "path of its library",
        path, why != nullptr ? why : "unknown reason", kVariable);
  }
  library->version_ = version_of(library->handle_, path);
  library->api_ = functions_of(library->handle_, path);
  return library;
}

Library::~Library() {
  if (handle_ != nullptr) dlclose(handle_);
}

}  // namespace lockstep::transport::nccl
