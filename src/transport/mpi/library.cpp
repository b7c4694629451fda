#include "transport/mpi/library.h"

#include <array>
#include <cstdlib>

#include "lockstep/error.h"
#include "transport/mpi/entry.h"

namespace lockstep::transport::mpi {
namespace {

// The variable in which an MPI's launcher says how many processes it has started.
struct MpiLauncher {
  const char* name;
  const char* variable;
};

constexpr MpiLauncher kOpenMpi = {"Open MPI", "OMPI_COMM_WORLD_SIZE"};
constexpr MpiLauncher kMpich = {"MPICH", "PMI_SIZE"};

// How many processes an MPI's mpirun started, this one among them; 0: it did not start this one.
int started_by(const MpiLauncher& launcher) {
  const char* const text = std::getenv(launcher.variable);
  return text == nullptr ? 0 : std::atoi(text);
}

[[noreturn]] void refuse(const MpiLauncher& launcher) {
  const std::string built_with = version();
  const bool open_mpi = built_with.starts_with(kOpenMpi.name);
  throw BadInput(
      "the mpirun of {} ({}={}) started this program, but it was built with another MPI, {}, which "
      "does not see the other processes; start it by the mpirun of that MPI{}, or choose the "
      "transport hybrid, which needs no MPI",
      launcher.name, launcher.variable, started_by(launcher), built_with,
      open_mpi ? " (Debian: mpirun.openmpi)" : " (Debian: mpirun.mpich)");
}

// MPICH 5 ends such a program in MPI_Init, without saying what to do.
void expect_own_launcher() {
  const bool is_mpich = version().starts_with(kMpich.name);
  if (is_mpich && started_by(kOpenMpi) > 1 && started_by(kMpich) == 0) refuse(kOpenMpi);
}

// A program built with one MPI and started by another one's mpirun runs as many separate worlds of
// size 1, without an error.
void expect_the_launchers_world() {
  int world = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &world), "MPI_Comm_size");
  if (world > 1) return;
  for (const MpiLauncher& launcher : {kOpenMpi, kMpich})
    if (started_by(launcher) > 1) refuse(launcher);
}

}  // namespace

std::string error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS)
    return fmt::format("MPI error {}", code);
  return {text.data(), static_cast<size_t>(length)};
}

void check(int code, const char* call) {
  if (code != MPI_SUCCESS) throw Error(fmt::format("[mpi] {}: {}", call, error_text(code)));
}

Library& Library::get() {
  static Library library;
  return library;
}

Library::Library() {
  int initialised = 0;
  check(MPI_Initialized(&initialised), "MPI_Initialized");
  int level = MPI_THREAD_SINGLE;
  if (initialised != 0) {
    check(MPI_Query_thread(&level), "MPI_Query_thread");
  } else {
    expect_own_launcher();
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    initialised_here_ = true;
  }
  if (level < MPI_THREAD_SERIALIZED)
    throw Error(
        "[mpi] MPI was initialised for one thread; initialise it by MPI_Init_thread with "
        "MPI_THREAD_SERIALIZED, or let Lockstep initialise it");
  expect_the_launchers_world();
}

Library::~Library() {
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (initialised_here_ && !gave_up_ && finalised == 0) MPI_Finalize();
}

}  // namespace lockstep::transport::mpi
