// Times MPI_Allreduce. Run by the MPI's own launcher, with its processes bound to cores.
#include <mpi.h>

#include "measure.h"

namespace lockstep::peers {
namespace {

class Mpi final : public Peer {
 public:
  Mpi() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &world_);
  }
  ~Mpi() override { MPI_Finalize(); }

  std::string name() const override { return LOCKSTEP_PEER; }
  int rank() const override { return rank_; }
  int world_size() const override { return world_; }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  double largest(double value) override {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return value;
  }

  std::vector<std::string> ways() const override { return {"MPI_Allreduce"}; }
  std::function<void()> all_reduce(const std::string& /*way*/, float* data, size_t count) override {
    return [data, count] {
      MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    };
  }

 private:
  int rank_ = 0;
  int world_ = 1;
};

}  // namespace
}  // namespace lockstep::peers

int main(int argc, char** argv) {
  const auto plan = lockstep::peers::parse(argc, argv);
  lockstep::peers::Mpi peer;
  return lockstep::peers::measure(peer, plan) == 0 ? 0 : 1;
}
