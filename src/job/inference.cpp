#include "job/inference.h"

#include <utility>

#include "base/clock.h"
#include "data/relabelled.h"
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

 private:
  const std::vector<std::string> plugins_;
  std::future<const train::TrainerLibrary*> loading_ = load_trainer();
  const train::TrainerLibrary* library_ = nullptr;
};

std::shared_ptr<const Dataset> split_of(const Splits& splits, EvaluateJob::Split wanted) {
  if (wanted == EvaluateJob::Split::train) return splits.train;
  if (wanted == EvaluateJob::Split::test) return splits.test;
  if (!splits.validation)
    throw BadInput(
        "the data have no validation split; evaluate the test split, or hold one out with --data "
        "NAME --set data.validation_fraction=0.1");
  return splits.validation;
}

}  // namespace

run::Json evaluate(const EvaluateJob& job) {
  Trainer trainer(job.plugins);
  const run::ModelFile model = run::open_model(job.model);
  data::DataOptions asked = job.data;
  if (asked.name.empty()) {
    asked.name = model.about.data;
    asked.options = model.about.data_options;
    asked.hold_out = model.about.hold_out;
  }
  const Splits splits = data::load_splits(asked);
  const auto dataset = data::relabelled(split_of(splits, job.split), model.about.fields);
  const train::TrainerLibrary& library = trainer.get();
  const Stopwatch stopwatch;
  run::Json result = {{"model", model.path.string()}, {"data", asked.name}};
  result.update(library.evaluate_model(model, dataset));
  result["seconds"] = stopwatch.seconds();
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
  trainer.get().predict(model, files, [&](const train::PredictedRows& rows) {
    take({*files, model.about.fields.targets}, rows);
  });
}

}  // namespace lockstep::job
