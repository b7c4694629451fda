#include "job/inference.h"

#include <fmt/format.h>

#include <array>
#include <future>
#include <utility>

#include "base/clock.h"
#include "data/datasets.h"
#include "data/relabelled.h"
#include "data/training_data.h"
#include "job/trainer_library.h"
#include "lockstep/error.h"

namespace lockstep::job {
namespace {

// Loads LibTorch, while the caller reads a model and data, and then plugins.
class Trainer {
 public:
  explicit Trainer(std::vector<std::string> plugins) : plugins_(std::move(plugins)) {
    // Plugins may add the data set that is read next.
    if (has_plugins(plugins_)) get();
  }
  const train::TrainerLibrary& get() {
    if (library_ == nullptr) {
      library_ = loading_.get();
      load_plugins(*library_, plugins_);
    }
    return *library_;
  }
  /// Throws BadInput if the model needs a plugin that is not loaded.
  const train::TrainerLibrary& get_for(const run::ModelFile& model) {
    get().check_names(model.about.name, model.about.objective);
    return *library_;
  }

 private:
  const std::vector<std::string> plugins_;
  std::future<const train::TrainerLibrary*> loading_ = load_trainer();
  const train::TrainerLibrary* library_ = nullptr;
};

// By EvaluateJob::Split.
constexpr std::array kSplitNames = {"train", "validation", "test"};
constexpr const char* kAllSamples = "all";

// Whether both are of one name, whatever slashes end their paths.
bool same_data(std::string a, std::string b) {
  while (a.ends_with('/')) a.pop_back();
  while (b.ends_with('/')) b.pop_back();
  return a == b;
}

data::DataOptions data_of(const EvaluateJob& job, const run::ModelDescription& about) {
  Recipe recipe;
  recipe.data.name = job.data.empty() ? about.data : data::with_absolute_path(job.data);
  const auto kind = [](const std::string& name) { return name.substr(0, name.find(':')); };
  if (kind(recipe.data.name) == kind(about.data)) recipe.data.options = about.data_options;
  if (same_data(recipe.data.name, about.data)) recipe.data.hold_out = about.hold_out;
  if (job.change) job.change(recipe);
  return recipe.data;
}

// What is evaluated.
struct Evaluated {
  Splits splits;  ///< `test` is nullptr if the data have none and all samples are evaluated
  bool is_own;    ///< the data that the model was trained on
};

// Whether the data are the model's own under another name. Division needs three samples at most.
bool is_own_by_contents(const Splits& undivided, const run::ModelDescription& about) {
  return !about.data_sha256.empty() && undivided.train->size() >= 3 &&
         data::digest_of(data::hold_out(undivided, about.hold_out)) == about.data_sha256;
}

// The model's own data are divided as they were for the training; of others nothing is held out,
// unless the caller asks for it.
Evaluated load_evaluated(const data::DataOptions& asked, const run::ModelDescription& about) {
  if (same_data(asked.name, about.data))
    return {data::load_splits(asked), !about.data_sha256.empty()};
  const Splits undivided = data::load_dataset(asked.name, asked.options);
  if (asked.hold_out != data::HoldOut()) return {data::hold_out(undivided, asked.hold_out), false};
  if (!undivided.test && is_own_by_contents(undivided, about))
    return {data::hold_out(undivided, about.hold_out), false};
  return {undivided, false};
}

std::shared_ptr<const Dataset> split_of(const Splits& splits, EvaluateJob::Split wanted) {
  if (wanted == EvaluateJob::Split::train) return splits.train;
  if (wanted == EvaluateJob::Split::test) return splits.test ? splits.test : splits.train;
  if (!splits.validation)
    throw BadInput(
        "the data have no validation split; evaluate the test split, or data with a validation "
        "split of their own");
  return splits.validation;
}

const char* name_of(EvaluateJob::Split split, const Splits& splits) {
  if (split == EvaluateJob::Split::test && !splits.test) return kAllSamples;
  return kSplitNames[static_cast<size_t>(split)];
}

}  // namespace

run::Json evaluate(const EvaluateJob& job) {
  Trainer trainer(job.plugins);
  const run::ModelFile model = run::open_model(job.model);
  const data::DataOptions asked = data_of(job, model.about);
  const auto [splits, is_own] = load_evaluated(asked, model.about);
  auto digest = std::async(std::launch::async, [&, &splits = splits, is_own = is_own] {
    return is_own ? data::digest_of(splits) : std::string();
  });
  const auto dataset = data::relabelled(split_of(splits, job.split), model.about.fields);
  const train::TrainerLibrary& library = trainer.get_for(model);
  const Stopwatch stopwatch;
  run::Json result = {
      {"model", model.path.string()}, {"data", asked.name}, {"split", name_of(job.split, splits)}};
  result.update(library.evaluate_model(model, dataset));
  result["seconds"] = stopwatch.seconds();
  if (is_own && digest.get() != model.about.data_sha256)
    result["warning"] = fmt::format(
        "{} has changed since the model was trained on it, or is divided otherwise: the split may "
        "contain samples that the model was trained on",
        asked.name);
  return result;
}

void predict(const PredictJob& job,
             const std::function<void(const Predicted&, const train::PredictedRows&)>& take) {
  Trainer trainer(job.plugins);
  const run::ModelFile model = run::open_model(job.model);
  const std::vector<Field>& inputs = model.about.fields.inputs;
  if (inputs.size() != 1)
    throw BadInput("{}: the model has {} inputs; predict reads files for models with one",
                   model.path.string(), inputs.size());
  const auto files =
      std::make_shared<data::InputFiles>(job.files, inputs[0], model.about.data_options);
  trainer.get_for(model).predict(model, files, [&](const train::PredictedRows& rows) {
    take({*files, model.about.fields.targets}, rows);
  });
}

}  // namespace lockstep::job
