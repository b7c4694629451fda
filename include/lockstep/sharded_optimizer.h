#pragma once

#include <torch/optim.h>
#include <torch/serialize/archive.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/error.h"
#include "lockstep/world.h"

namespace lockstep {

/// Whether an optimizer updates every element by itself, so that it can be given parts of tensors.
/// Optimizers of your own are given whole parameters, unless you specialize this for them.
template <typename Optimizer>
inline constexpr bool is_elementwise =
    std::is_same_v<Optimizer, torch::optim::SGD> || std::is_same_v<Optimizer, torch::optim::Adam> ||
    std::is_same_v<Optimizer, torch::optim::AdamW> ||
    std::is_same_v<Optimizer, torch::optim::RMSprop> ||
    std::is_same_v<Optimizer, torch::optim::Adagrad>;

/// The part of ShardedOptimizer that does not depend on the optimizer's type.
class ShardedUpdate : public torch::optim::Optimizer {
 public:
  /// Parameter groups.
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;
  ~ShardedUpdate() override;

  /// One update. Collective. A closure is called once, on every worker, before it. If one worker
  /// throws, the others throw PeerLost.
  torch::Tensor step(LossClosure closure = nullptr) override;
  /// Rank 0's archive becomes what the optimizer itself would save on one worker; those of other
  /// workers stay empty. Collective.
  void save(torch::serialize::OutputArchive& archive) const override;
  /// The same into a file, which rank 0 writes. Collective.
  void save_to(const std::string& path) const;
  /// Takes this worker's share of what any number of workers have saved, or of what the optimizer
  /// itself has. Every worker reads the archive: torch::load(optimizer, path).
  /// Throws BadInput for what another model's or another kind of optimizer has saved.
  void load(torch::serialize::InputArchive& archive) override;
  /// The same from a file. Throws BadInput if it cannot be read.
  void load_from(const std::string& path);

 protected:
  /// What is divided among workers.
  enum class Divide {
    elements,   ///< of all parameters, evenly
    parameters  ///< whole ones, by size
  };
  /// Throws BadInput for an empty list, a parameter given twice, or one without memory of its own.
  ShardedUpdate(Groups groups, World world, Divide divide);
  /// This worker's share of the groups.
  const Groups& own_groups() const;
  /// Takes the optimizer of `own_groups`. Collective: compares groups between workers.
  void take(std::unique_ptr<torch::optim::Optimizer> own);
  /// What `take` has been given.
  const torch::optim::Optimizer& own() const;

 private:
  struct State;
  std::unique_ptr<State> state_of_share_;
};

/// Divides an optimizer's state among workers: each keeps its share, updates that share of the
/// parameters, and gets the rest from the others. Parameters have the same bits as with the
/// optimizer itself on every worker, if LibTorch computes with one thread.
///
///     auto world = lockstep::init(argc, argv);
///     torch::nn::Linear model(4, 2);
///     lockstep::DistributedDataParallel ddp(model, world);
///     lockstep::ShardedOptimizer<torch::optim::AdamW> optimizer(
///         model->parameters(), torch::optim::AdamWOptions(1e-3), world);
///     auto loss = torch::cross_entropy_loss(ddp(x), y);
///     optimizer.zero_grad();
///     loss.backward();
///     optimizer.step();                     // on all workers
///     optimizer.save_to("optimizer.pt");    // on all workers; rank 0 writes
///     optimizer.load_from("optimizer.pt");  // on any number of workers
///
/// Parameter groups, `param_groups()[i].options().set_lr(...)`, schedulers of torch::optim and
/// `zero_grad` are the optimizer's. All workers must have equal parameters, gradients (as
/// DistributedDataParallel leaves them) and options. An undefined gradient is skipped. Groups
/// cannot be added later. SGD, Adam, AdamW, RMSprop and Adagrad are divided by elements, others by
/// whole parameters; LBFGS is refused, and so is DistributedDataParallel::join.
template <typename Inner>
class ShardedOptimizer : public ShardedUpdate {
 public:
  /// Collective. `options` are the optimizer's, or what it makes them of: a learning rate. Throws
  /// BadInput for LBFGS and unusable parameters, and Mismatch where workers differ.
  template <typename Options>
  ShardedOptimizer(Groups groups, const Options& options, World world)
      : ShardedUpdate(possible(std::move(groups)), std::move(world),
                      is_elementwise<Inner> ? Divide::elements : Divide::parameters) {
    take(std::make_unique<Inner>(own_groups(), options));
  }
  /// The same, for one group.
  template <typename Options>
  ShardedOptimizer(std::vector<torch::Tensor> parameters, const Options& options, World world)
      : ShardedOptimizer(Groups{torch::optim::OptimizerParamGroup(std::move(parameters))}, options,
                         std::move(world)) {}

  /// The optimizer of this worker's share, to look at its state.
  const Inner& share() const { return static_cast<const Inner&>(own()); }

 private:
  static Groups possible(Groups groups) {
    if constexpr (std::is_base_of_v<torch::optim::LBFGS, Inner>)
      throw BadInput(
          "ShardedOptimizer of LBFGS: its direction is a product over all parameters at once, so "
          "that no worker can compute a part of it; use torch::optim::LBFGS itself");
    return groups;
  }
};

}  // namespace lockstep
