#include "train/make_model.h"

#include <algorithm>
#include <utility>

#include "device/memory_account.h"
#include "lockstep/error.h"
#include "model/in_precision.h"
#include "model/models.h"
#include "objective/objectives.h"

namespace lockstep::train {
namespace {

// Checkpoints, digests and collectives treat tensors as contiguous bytes.
void require_storable(const Model& model) {
  const auto check = [](const char* what, const auto& items) {
    for (const auto& item : items) {
      if (!item.value().is_contiguous())
        throw BadInput("{} '{}' of the model is not contiguous; register its .contiguous()", what,
                       item.key());
      if (item.value().is_complex())
        throw BadInput(
            "{} '{}' of the model is complex, which checkpoints cannot store; register its "
            "torch::view_as_real()",
            what, item.key());
    }
  };
  check("parameter", model.named_parameters());
  check("buffer", model.named_buffers());
}

}  // namespace

std::shared_ptr<Objective> make_objective(const Recipe& recipe, const Dataset& dataset) {
  std::shared_ptr<Objective> made = objective::make_objective(
      recipe.objective.name, {.fields = dataset.fields(),
                              .kernels = model::kernels_named(recipe.train.kernels),
                              .options = recipe.objective.options});
  const auto has_categories = [](const Field& target) { return !target.categories.empty(); };
  if (recipe.data.mixup > 0 && !made->takes_probabilities() &&
      std::ranges::any_of(dataset.fields().targets, has_categories))
    throw BadInput(
        "data.mixup: objective '{}' does not take probabilities of classes, which labels become "
        "when samples are mixed; leave data.mixup out, or let the objective's "
        "takes_probabilities() return true",
        recipe.objective.name);
  return made;
}

std::shared_ptr<Model> make_model(const Recipe& recipe, const Dataset& dataset,
                                  const Objective& objective) {
  const MemoryScope scope(MemoryUse::parameters);
  auto made = model::make_model(
      {.name = recipe.model.name,
       .inputs = dataset.fields().inputs,
       .outputs = objective.outputs(),
       .kernels = model::kernels_for(recipe.train.kernels, recipe.train.precision),
       .options = recipe.model.options},
      static_cast<uint64_t>(recipe.train.seed));
  require_storable(*made);
  return model::in_precision(std::move(made), recipe.train.precision);
}

}  // namespace lockstep::train
