#include "train/setup.h"

#include <ATen/Parallel.h>

#include <utility>

#include "base/agreement.h"
#include "device/allocator.h"
#include "lockstep/error.h"
#include "train/state.h"
#include "train/worker_count.h"

namespace lockstep::train {
namespace {

Recipe checked(Recipe recipe) {
  validate(recipe);
  keep_freed_memory();
  at::set_num_threads(static_cast<int>(recipe.train.threads));
  return recipe;
}

std::shared_ptr<model::Model> model_for(const Recipe& recipe, const data::Dataset& dataset) {
  auto model = model::make_model({.name = recipe.model.name,
                                  .input = dataset.shape,
                                  .classes = dataset.classes(),
                                  .zero_gamma = recipe.model.zero_gamma,
                                  .kernels = model::kernels_named(recipe.train.kernels),
                                  .seed = static_cast<uint64_t>(recipe.train.seed)});
  if (!recipe.model.weights.empty()) load_weights(recipe.model.weights, *model);
  return model;
}

collective::Shards shards_for(const Recipe& recipe, int world) {
  check_worker_count(recipe, world);
  return collective::Shards::even(shards_of(recipe), world);
}

data::Share share_of(const collective::Shards& shards, int rank) {
  const auto at = static_cast<size_t>(rank);
  return {shards.bounds()[at], shards.bounds()[at + 1], shards.count()};
}

// Workers with other data or another recipe would train on without noticing.
void require_same_run(const Recipe& recipe, const data::Splits& splits,
                      collective::Communicator& group) {
  Facts facts;
  for (const auto& [key, value] : result_values(recipe)) facts.emplace_back(key, value);
  facts.emplace_back("the data's digest", splits.digest);
  agree(facts, [&](const std::string& text) { return group.gather_texts(text); });
}

data::LoaderOptions loader_options(const Recipe& recipe, const data::Normalization& normalization,
                                   const data::Share& share) {
  return {.batch = recipe.train.batch,
          .order = data::Order::shuffled,
          .last = recipe.train.drop_last ? data::LastBatch::drop : data::LastBatch::keep,
          .seed = static_cast<uint64_t>(recipe.train.seed),
          .augment = recipe.data.augment,
          .normalization = normalization,
          .share = share};
}

}  // namespace

Setup::Setup(Recipe asked, World everyone, std::shared_ptr<const TrainingData> loaded)
    : recipe(checked(std::move(asked))),
      world(std::move(everyone)),
      group(world.communicator()),
      shards(shards_for(recipe, group.world_size())),
      data(std::move(loaded)),
      splits(data->splits),
      normalization(data->normalization),
      model(model_for(recipe, splits.train)),
      loader(splits.train, loader_options(recipe, normalization, share_of(shards, group.rank()))),
      steps_per_epoch(loader.batches_per_epoch()),
      total_steps(recipe.train.steps > 0 ? recipe.train.steps
                                         : recipe.train.epochs * steps_per_epoch) {
  require_same_run(recipe, splits, group);
}

}  // namespace lockstep::train
