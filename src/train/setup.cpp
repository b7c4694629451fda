#include "train/setup.h"

#include <ATen/Parallel.h>

#include <utility>

#include "train/checkpoint.h"

namespace lockstep::train {
namespace {

Recipe checked(Recipe recipe) {
  validate(recipe);
  at::set_num_threads(static_cast<int>(recipe.train.threads));
  return recipe;
}

data::Normalization normalization_for(const Recipe& recipe, const data::Dataset& dataset) {
  return recipe.data.normalize ? data::measure_normalization(dataset) : data::Normalization{};
}

std::shared_ptr<model::Model> model_for(const Recipe& recipe, const data::Dataset& dataset) {
  auto model = model::make_model({.name = recipe.model.name,
                                  .input = dataset.shape,
                                  .classes = dataset.classes(),
                                  .zero_gamma = recipe.model.zero_gamma,
                                  .seed = static_cast<uint64_t>(recipe.train.seed)});
  if (!recipe.model.weights.empty()) load_weights(recipe.model.weights, *model);
  return model;
}

data::LoaderOptions loader_options(const Recipe& recipe, const data::Normalization& normalization) {
  return {.batch = recipe.train.batch,
          .order = data::Order::shuffled,
          .last = recipe.train.drop_last ? data::LastBatch::drop : data::LastBatch::keep,
          .seed = static_cast<uint64_t>(recipe.train.seed),
          .augment = recipe.data.augment,
          .normalization = normalization};
}

}  // namespace

Setup::Setup(Recipe asked)
    : recipe(checked(std::move(asked))),
      splits(data::load(recipe.data.source)),
      normalization(normalization_for(recipe, splits.train)),
      model(model_for(recipe, splits.train)),
      loader(splits.train, loader_options(recipe, normalization)),
      steps_per_epoch(loader.batches_per_epoch()),
      total_steps(recipe.train.steps > 0 ? recipe.train.steps
                                         : recipe.train.epochs * steps_per_epoch),
      load_seconds(since_start.seconds()) {}

}  // namespace lockstep::train
