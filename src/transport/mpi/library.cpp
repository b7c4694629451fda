#include "transport/mpi/library.h"

#include <array>
#include <cstdlib>

#include "lockstep/error.h"

namespace lockstep::transport::mpi {
namespace {

// A program built with one MPI and started by another one's mpirun runs as many separate worlds of
// size 1, without an error.
void expect_the_launchers_world() {
  int world = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &world), "MPI_Comm_size");
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* const text = std::getenv(name);
    const int started = text == nullptr ? 1 : std::atoi(text);
    if (started > 1 && world == 1)
      throw BadInput(
          "{}={}, but MPI sees one process: the launcher belongs to another MPI than the one this "
          "program was built with; use the mpirun of that MPI",
          name, started);
  }
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
