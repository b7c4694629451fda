#include "transport/mpi.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "base/shipped.h"
#include "lockstep/error.h"
#include "transport/mpi/entry.h"

namespace lockstep::transport {
namespace {

std::filesystem::path library_path() {
  return core_library().parent_path() / "liblockstep_mpi.so." LOCKSTEP_SOVERSION;
}

using GetEntry = decltype(&lockstep_mpi_entry);

// Open MPI's components expect its symbols in the global scope.
GetEntry load() {
  if (!mpi_is_built())
    throw BadInput(
        "transport mpi: this build has no MPI, or {} was not installed with it; install an MPI "
        "(Debian: libopenmpi-dev) and configure with -DLOCKSTEP_MPI=ON, or choose the transport "
        "shm or tcp",
        library_path().string());
  void* const library = dlopen(library_path().c_str(), RTLD_LAZY | RTLD_GLOBAL);
  void* const function = library == nullptr ? nullptr : dlsym(library, "lockstep_mpi_entry");
  if (function == nullptr)
    throw Error(fmt::format(
        "transport mpi: {} cannot be loaded: {}; install the MPI that it was built with, "
        "or choose the transport shm or tcp",
        library_path().string(), dlerror()));
  return reinterpret_cast<GetEntry>(function);
}

const mpi::Entry& entry() {
  static const GetEntry get = lockstep_mpi_entry != nullptr ? lockstep_mpi_entry : load();
  return *get();
}

}  // namespace

bool mpi_is_built() {
  return std::filesystem::exists(library_path());
}

std::string mpi_version() {
  return mpi_is_built() ? entry().get_version() : "none";
}

std::unique_ptr<Rendezvous> mpi_rendezvous(const MpiOptions& options) {
  return entry().make_rendezvous(options);
}

std::unique_ptr<Transport> connect_mpi(Rendezvous& rendezvous, const MpiOptions& options) {
  return entry().make_transport(rendezvous, options);
}

}  // namespace lockstep::transport
