#include "train/model_facts.h"

#include <fmt/format.h>

#include <iterator>
#include <set>
#include <vector>

#include "lockstep/error.h"
#include "lockstep/sequential_model.h"
#include "parallel/layer_uses.h"
#include "parallel/model_part.h"
#include "train/memory.h"

namespace lockstep::train {
namespace {

using parallel::ModelPart;

// What BadInput says that `check` throws; nothing if it throws none.
template <typename Check>
std::string refusal_of(const Check& check) {
  try {
    check();
    return "";
  } catch (const BadInput& error) {
    return error.what();
  }
}

// Without tensors that are `counted` already, to which these are added.
fit::LayerSize size_of(const ModelPart& part, const std::string& name,
                       std::set<const void*>& counted) {
  const StateSize size = size_of_state(part.module(), counted);
  return {.name = name, .state = size.all, .trained = size.trained};
}

fit::LayerSize size_of(const ModelPart& part, const std::string& name) {
  std::set<const void*> none;
  return size_of(part, name, none);
}

}  // namespace

fit::ModelFacts facts_of(const std::shared_ptr<Model>& model, const std::string& name) {
  const auto undivided = [&](const std::string& why) {
    return fit::ModelFacts{.layers = {size_of(ModelPart(model), name)},
                           .blocks = {{0, 1}},
                           .undivided = why,
                           .unrecomputed = why};
  };
  const auto sequential = std::dynamic_pointer_cast<SequentialModel>(model);
  if (!sequential || sequential->layers().empty())
    return undivided(
        fmt::format("model '{}' does not list its layers (see lockstep/sequential_model.h)", name));
  parallel::check_uses(*sequential);
  if (sequential->layers().size() == 1)
    return undivided(fmt::format("model '{}' has one layer", name));
  fit::ModelFacts facts{.layers = {}, .blocks = parallel::blocks_of(*sequential)};
  if (facts.blocks.size() == 1)
    facts.undivided = fmt::format(
        "model '{}' has no two parts that both have trained parameters and share none", name);
  std::set<const void*> counted;
  for (const ModelLayer& layer : sequential->layers()) {
    const int64_t number = std::ssize(facts.layers);
    facts.layers.push_back(
        size_of(ModelPart(sequential, {number, number + 1}), layer.name, counted));
  }
  facts.unrecomputed = refusal_of([&] { parallel::check_recomputed(*sequential); });
  return facts;
}

}  // namespace lockstep::train
