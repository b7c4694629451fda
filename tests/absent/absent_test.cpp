// The files that stand in for backends that a build does not have.
#include <gtest/gtest.h>

#include "expect_error.h"
#include "transport/mpi.h"

namespace lockstep::transport {
namespace {

class Alone final : public Rendezvous {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  std::vector<std::string> gather(const std::string& text) override { return {text}; }
};

TEST(AbsentMpi, SaysThatItIsNotThereAndWhatToDo) {
  EXPECT_FALSE(mpi_is_built());
  EXPECT_EQ(mpi_version(), "none");
  expect_bad_input([] { mpi_rendezvous(); }, {"no MPI", "libopenmpi-dev", "-DLOCKSTEP_MPI=ON"});
  Alone alone;
  expect_bad_input([&] { connect_mpi(alone); }, {"no MPI", "shm or tcp"});
}

}  // namespace
}  // namespace lockstep::transport
