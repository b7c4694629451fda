#include "train/trained_part.h"

#include <string>
#include <utility>

namespace lockstep::train {
namespace {

using parallel::FlatOptimizer;
using parallel::NeededGradients;
using parallel::ReplicaOptions;

// Norms need whole gradients: the order in which squares are added is the same for any division.
NeededGradients needed_gradients(const Recipe& recipe) {
  return recipe.parallel.zero && recipe.optimizer.clip_norm == 0 ? NeededGradients::own_slice
                                                                 : NeededGradients::all;
}

ReplicaOptions replica_options(const Recipe& recipe, const collective::Shards& shards) {
  const std::string& compress = recipe.train.compress;
  ReplicaOptions options{.shards = shards,
                         .pieces = recipe.train.accumulate,
                         .needed = needed_gradients(recipe),
                         .parameters = recipe.parallel.zero
                                           ? ReplicaOptions::ParameterMemory::exchanged
                                           : ReplicaOptions::ParameterMemory::flat,
                         .buffers = ReplicaOptions::BufferMode::mean_over_shards};
  if (compress == "f16") options.compress = Compress::f16;
  if (compress == "bf16") options.compress = Compress::bf16;
  if (compress == "power_sgd")
    options.hook = power_sgd(
        {.rank = recipe.train.compress_rank, .seed = static_cast<uint64_t>(recipe.train.seed)});
  return options;
}

}  // namespace

TrainedPart::TrainedPart(const Recipe& recipe, parallel::ModelPart part, parallel::PartLinks links,
                         const World& replicas, const collective::Shards& shards,
                         parallel::Replica::OnGradient on_gradient,
                         std::shared_ptr<parallel::DeviceMirrors> mirrors)
    : PipelinePart(std::move(part), std::move(links), replicas, replica_options(recipe, shards),
                   std::move(on_gradient), std::move(mirrors)),
      optimizer_(
          replica(), recipe.optimizer,
          recipe.parallel.zero ? FlatOptimizer::State::divided : FlatOptimizer::State::whole),
      got_gradient_(replica().parameters().size()) {}

}  // namespace lockstep::train
