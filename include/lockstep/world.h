#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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
namespace parallel {
struct TensorCall;
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

/// A collective that runs in the background. Tensors that it uses must not be read or changed
/// before `wait` returns; they stay alive as long as it runs.
///
///     auto started = world.all_reduce_async(totals);
///     compute_something_else();
///     started.wait();  // now `totals` are the sums
class Started {
 public:
  /// Returns when the collective has ended, with the tensor that the function without `_async`
  /// changes or returns. Throws what that function throws.
  at::Tensor wait();
  /// Whether it has ended, so that `wait` returns at once.
  bool done() const;

 private:
  friend class World;
  struct State;
  std::shared_ptr<State> state_;
};

/// All workers of this job, or those of a part of it, of which this process is one. Copies share
/// their state.
///
///     auto world = lockstep::init(argc, argv);
///     auto losses = torch::full({1}, loss);
///     world.all_reduce(losses, lockstep::Operation::mean);
///     if (world.rank() == 0) fmt::print("mean loss {}\n", losses.item<double>());
///
/// Every worker must call the same collectives in the same order, with tensors of equal types and
/// (if not stated otherwise) numbers of elements; where they differ, Mismatch names both. (Shapes
/// are not compared: 2 x 3 may be sent to 6.) Tensors may have any strides and are of float,
/// double, half, bfloat16, long, int, short, char, byte or bool; bool is reduced by Operation::min
/// (true on all workers) and Operation::max (true on any) only. Where a tensor has *rows*, its
/// dimension 0 is the rank. Tensors may be on any device; results are on the same. Over `nccl`,
/// which sends them from the memory of the worker's CUDA device, they are on these devices on all
/// workers or on none. Nothing is recorded for a backward pass.
///
/// Functions that end in `_async` start a collective and return at once. All collectives and
/// messages of a world are executed one after another, in the order of the calls; use `duplicate`
/// for those that must not wait for each other.
class World {
 public:
  /// The number of this worker, from 0.
  int rank() const;
  /// The number of workers.
  int size() const;
  /// The number of this worker among those of its host in the job, from 0.
  int local_rank() const;

  /// Replaces `tensor` by the sum (or mean, minimum, maximum) over all workers.
  void all_reduce(const at::Tensor& tensor, Operation operation = Operation::sum);
  /// Replaces `tensor` by that of worker `root`.
  void broadcast(const at::Tensor& tensor, int root = 0);
  /// Returns the text of worker `root`.
  std::string broadcast(const std::string& text, int root = 0);
  /// Replaces `tensor` of worker `root` by the sum (or ...) over all workers.
  void reduce(const at::Tensor& tensor, int root = 0, Operation operation = Operation::sum);
  /// Returns the tensors of all workers as rows.
  at::Tensor all_gather(const at::Tensor& tensor);
  /// Returns the tensors of all workers, by rank. They may have different sizes.
  std::vector<at::Tensor> all_gather_uneven(const at::Tensor& tensor);
  /// Returns the texts of all workers, by rank.
  std::vector<std::string> all_gather(const std::string& text);
  /// On worker `root`, returns the tensors of all workers as rows; elsewhere an undefined tensor.
  at::Tensor gather(const at::Tensor& tensor, int root = 0);
  /// Replaces `part` by a row of the tensor that worker `root` passes as `rows`. The other workers'
  /// `rows` are not used and may be undefined.
  void scatter(const at::Tensor& rows, const at::Tensor& part, int root = 0);
  /// Returns this worker's row of the sum (or ...) over all workers.
  at::Tensor reduce_scatter(const at::Tensor& rows, Operation operation = Operation::sum);
  /// Sends row r to worker r. Returns what all workers have sent to this one, as rows.
  at::Tensor all_to_all(const at::Tensor& rows);
  /// Returns when all workers have called it.
  void barrier();

  /// Sends `tensor` to another worker, which must call `receive` with a tensor of the same size and
  /// type. May return before that has happened.
  void send(const at::Tensor& tensor, int to);
  /// Replaces `tensor` by one that another worker sends.
  void receive(const at::Tensor& tensor, int from);
  /// Sends one tensor and receives another one at the same time, so that workers can send to each
  /// other, or in a circle. The partners must call `exchange`, too.
  void exchange(const at::Tensor& outgoing, int to, const at::Tensor& incoming, int from);

  /// Starts `all_reduce`.
  Started all_reduce_async(const at::Tensor& tensor, Operation operation = Operation::sum);
  /// Starts `broadcast`.
  Started broadcast_async(const at::Tensor& tensor, int root = 0);
  /// Starts `reduce`.
  Started reduce_async(const at::Tensor& tensor, int root = 0,
                       Operation operation = Operation::sum);
  /// Starts `all_gather`.
  Started all_gather_async(const at::Tensor& tensor);
  /// Starts `gather`.
  Started gather_async(const at::Tensor& tensor, int root = 0);
  /// Starts `scatter`.
  Started scatter_async(const at::Tensor& rows, const at::Tensor& part, int root = 0);
  /// Starts `reduce_scatter`.
  Started reduce_scatter_async(const at::Tensor& rows, Operation operation = Operation::sum);
  /// Starts `all_to_all`.
  Started all_to_all_async(const at::Tensor& rows);
  /// Starts `send`.
  Started send_async(const at::Tensor& tensor, int to);
  /// Starts `receive`.
  Started receive_async(const at::Tensor& tensor, int from);
  /// Starts `exchange`.
  Started exchange_async(const at::Tensor& outgoing, int to, const at::Tensor& incoming, int from);

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
  /// The world of all workers that pass the same `color`, ranked by `key` and, where keys are
  /// equal, by their rank here. With a negative color a worker is a member of none: nullopt.
  /// Collective.
  ///
  ///     auto row = world.split(world.rank() / 4);  // workers 0 to 3, 4 to 7, ...
  ///     auto column = world.split(world.rank() % 4);
  std::optional<World> split(int color, int key = 0);

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

  at::Tensor run(const parallel::TensorCall& call);
  Started start(const parallel::TensorCall& call);

  friend class Started;
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
