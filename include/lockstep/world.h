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

/// How workers talk to each other, and how long they wait.
struct WorldOptions {
  /// shm, tcp, hybrid (shm inside a host, tcp between hosts), mpi or hybrid-mpi. "auto": hybrid-mpi
  /// under mpirun where this build has MPI, else hybrid.
  std::string transport = "auto";
  /// Which all-reduce: one_to_all, tree, butterfly, ring, halving_doubling, direct or engine.
  /// "auto": the cheapest on this network, by a short measurement.
  std::string algorithm = "auto";
  /// A collective that lasts longer throws Timeout. A rank that writes a long file while others
  /// wait is no error, so this is generous; a rank that dies is noticed at once.
  double timeout_seconds = 600;
  /// A host that sends no heartbeat for this long is considered lost.
  double silence_seconds = 10;
  /// How long `init` waits for all workers to arrive.
  double meeting_seconds = 60;
  /// A rank that waits longer than this logs on stderr which ranks it waits for; 0: never.
  double stall_seconds = 10;
};

/// All workers of this job, of which this process is one. A handle: copies are the same world.
///
/// Every worker calls the same collectives in the same order. Tensors are changed in place.
///
///     auto world = lockstep::init(argc, argv);
///     auto losses = torch::full({1}, loss);
///     world.all_reduce(losses, lockstep::Operation::mean);
///     if (world.rank() == 0) fmt::print("mean loss {}\n", losses.item<double>());
class World {
 public:
  /// The number of this worker, from 0.
  int rank() const;
  /// How many workers there are.
  int size() const;
  /// The number of this worker among those of its host, from 0.
  int local_rank() const;

  /// `tensor` becomes the sum (or what `operation` says) over all workers.
  void all_reduce(at::Tensor& tensor, Operation operation = Operation::sum);
  /// `tensor` becomes that of worker `root`.
  void broadcast(at::Tensor& tensor, int root = 0);
  /// Returns when all workers have called it.
  void barrier();
  /// Every worker gives a text and gets everyone's, by rank.
  std::vector<std::string> gather(const std::string& text);

  /// How many bytes this worker has sent so far in collectives, those of duplicates (and so of
  /// gradient hooks) included: what a hook saves is seen in the difference between two steps. Bytes
  /// of numbers alone, without the transport's headers.
  ///
  ///     const int64_t before = world.bytes_sent();
  ///     loss.backward();
  ///     fmt::print("{} bytes of gradients\n", world.bytes_sent() - before);
  int64_t bytes_sent() const;

  /// A world of the same workers whose collectives are in no order with this one's: for a thread of
  /// its own. Collective.
  World duplicate();

  /// Makes everyone's collectives throw PeerLost with this reason: what a worker does that cannot
  /// go on. From any thread.
  void abort(const std::string& why) noexcept;

  /// For the parts of Lockstep itself.
  collective::Communicator& communicator();

 private:
  struct State;
  explicit World(std::shared_ptr<State> state) : state_(std::move(state)) {}
  friend World world_of(std::unique_ptr<collective::Communicator> group, int local_rank);

  std::shared_ptr<State> state_;
};

/// Finds out which worker this is, from what `lockstep run`, torchrun, mpirun or srun left in the
/// environment, and connects it with all others. Without any of them it is the only one. Throws
/// BadInput, Mismatch, Timeout and PeerLost.
World init(const WorldOptions& options = {});

/// The same. Flags in `argv` that begin with --lockstep- change `options` and are taken out:
/// --lockstep-transport=tcp, --lockstep-algorithm=ring, --lockstep-timeout=60, ...
World init(int& argc, char** argv, WorldOptions options = {});

}  // namespace lockstep
