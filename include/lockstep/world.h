#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/element.h"
#include "lockstep/error.h"

namespace at {
class Tensor;
}

namespace lockstep {

namespace collective {
class Communicator;
}

/// How workers communicate, and how long they wait.
struct WorldOptions {
  /// shm, tcp, hybrid (shm inside a host, tcp between hosts), mpi or hybrid-mpi. "auto": hybrid-mpi
  /// under mpirun where this build has MPI, else hybrid.
  std::string transport = "auto";
  /// All-reduce algorithm: one_to_all, tree, butterfly, ring, halving_doubling, direct or engine.
  /// "auto": the fastest on this network, after a short measurement.
  std::string algorithm = "auto";
  /// A collective that takes longer throws Timeout. It is long because a rank may write a large
  /// file while the others wait; a rank that dies is detected at once.
  double timeout_seconds = 600;
  /// A host that sends no heartbeat for this long is considered lost.
  double silence_seconds = 10;
  /// How long `init` waits for all workers to arrive.
  double meeting_seconds = 60;
  /// A rank that waits longer than this logs on stderr which ranks it waits for; 0: never.
  double stall_seconds = 10;
};

/// All workers of this job, of which this process is one. Copies share their state.
///
/// Every worker must call the same collectives in the same order. Tensors are changed in place.
///
///     auto world = lockstep::init(argc, argv);
///     auto losses = torch::full({1}, loss);
///     world.all_reduce(losses, lockstep::Operation::mean);
///     if (world.rank() == 0) fmt::print("mean loss {}\n", losses.item<double>());
class World {
 public:
  /// The number of this worker, from 0.
  int rank() const;
  /// The number of workers.
  int size() const;
  /// The number of this worker among those of its host, from 0.
  int local_rank() const;

  /// Replaces `tensor` by the sum (or mean, minimum, maximum) over all workers.
  void all_reduce(at::Tensor& tensor, Operation operation = Operation::sum);
  /// Replaces `tensor` by that of worker `root`.
  void broadcast(at::Tensor& tensor, int root = 0);
  /// Returns when all workers have called it.
  void barrier();
  /// Returns the texts of all workers, by rank.
  std::vector<std::string> gather(const std::string& text);

  /// Number of bytes that this worker has sent in collectives so far, including those of duplicates
  /// (and therefore of gradient hooks), without headers of the transport.
  ///
  ///     const int64_t before = world.bytes_sent();
  ///     loss.backward();
  ///     fmt::print("{} bytes of gradients\n", world.bytes_sent() - before);
  int64_t bytes_sent() const;

  /// A world of the same workers with its own order of collectives, for use in another thread.
  /// Collective.
  World duplicate();

  /// Makes the collectives of all workers throw PeerLost with this reason. Call it if this worker
  /// cannot continue. May be called from any thread.
  void abort(const std::string& why) noexcept;

  /// For use inside Lockstep.
  collective::Communicator& communicator();

 private:
  struct State;
  explicit World(std::shared_ptr<State> state) : state_(std::move(state)) {}
  friend World world_of(std::unique_ptr<collective::Communicator> group, int local_rank);
  friend class DistributedSampler;
  friend class GradientSync;

  std::shared_ptr<State> state_;
};

/// Reads rank and world size from the environment variables of `lockstep run`, torchrun, mpirun or
/// srun and connects this worker with all others. Without these variables the world has one worker.
/// Throws BadInput, Mismatch, Timeout and PeerLost.
World init(const WorldOptions& options = {});

/// The same. Flags that begin with --lockstep- change `options` and are removed from `argv`:
/// --lockstep-transport=tcp, --lockstep-algorithm=ring, --lockstep-timeout=60, ...
World init(int& argc, char** argv, WorldOptions options = {});

}  // namespace lockstep
