#include "train/inference.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "data/loader.h"
#include "device/allocator.h"
#include "device/random.h"
#include "launch/group.h"
#include "model/in_precision.h"
#include "model/models.h"
#include "objective/objectives.h"
#include "objective/scorecard.h"
#include "train/batch_tensors.h"
#include "train/evaluate.h"
#include "train/outputs.h"
#include "train/state.h"

namespace lockstep::train {
namespace {

// Of a sample that a model reads: normalized inputs are f32.
Fields as_read(const run::ModelDescription& about) {
  Fields fields = about.fields;
  for (Field& input : fields.inputs)
    if (data::is_quantity(input)) input.type = Type::f32;
  return fields;
}

/// A model with its weights, in evaluation mode, and its objective.
struct TrainedModel {
  explicit TrainedModel(const run::ModelFile& file)
      : fields(as_read(file.about)), objective(objective_of(file.about)), model(model_of(file)) {
    keep_freed_memory();
    at::set_num_threads(static_cast<int>(file.about.threads));
    load_weights(file.contents, file.path, *model);
    model->eval();
  }

  const Fields fields;
  const std::shared_ptr<Objective> objective;
  const std::shared_ptr<Model> model;

 private:
  std::shared_ptr<Objective> objective_of(const run::ModelDescription& about) const {
    return objective::make_objective(about.objective,
                                     {.fields = fields,
                                      .kernels = model::kernels_named(about.kernels),
                                      .options = about.objective_options});
  }
  std::shared_ptr<Model> model_of(const run::ModelFile& file) const {
    const run::ModelDescription& about = file.about;
    auto made = model::make_model({.name = about.name,
                                   .inputs = fields.inputs,
                                   .outputs = objective->outputs(),
                                   .kernels = model::kernels_for(about.kernels, about.precision),
                                   .options = about.options},
                                  0);
    return model::in_precision(std::move(made), about.precision);
  }
};

bool are_classes(const Fields& fields) {
  return fields.targets.size() == 1 && !fields.targets[0].categories.empty() &&
         fields.targets[0].shape.empty();
}

// The outputs that the objective expects, in its order, as one matrix.
torch::Tensor rows_of(const Tensors& outputs, const std::vector<Field>& expected, int64_t samples,
                      bool classes) {
  std::vector<torch::Tensor> parts;
  for (const Field& field : expected) {
    const torch::Tensor& output = outputs.size() == 1 ? outputs.only() : outputs[field.name];
    parts.push_back(output.reshape({samples, -1}).to(torch::kFloat));
  }
  const torch::Tensor rows = parts.size() == 1 ? parts[0] : torch::cat(parts, 1);
  return (classes ? rows.softmax(1) : rows).contiguous();
}

}  // namespace

run::Json evaluate_model(const run::ModelFile& file, std::shared_ptr<const Dataset> dataset) {
  const TrainedModel trained(file);
  const auto group = launch::join_group({.launcher = "nobody"}, {});
  const objective::Scorecard scorecard(trained.objective->metrics(), Phase::evaluation);
  const Evaluation result =
      evaluate(whole(trained.model, *group), *trained.objective, scorecard,
               data::normalized(std::move(dataset), file.about.normalization), *group);
  run::Json figures = scorecard.figures(result.totals, "");
  figures["samples"] = result.totals.samples;
  figures["metrics"] = objective::shown_metrics(trained.objective->metrics());
  figures["tables"] = scorecard.table_figures(result.tables);
  return figures;
}

void predict(const run::ModelFile& file, std::shared_ptr<const Dataset> dataset,
             const std::function<void(const PredictedRows&)>& take) {
  const torch::NoGradGuard no_grad;
  const TrainedModel trained(file);
  const parallel::ModelPart model(trained.model);
  const bool classes = are_classes(trained.fields);
  const std::vector<Field> expected = trained.objective->outputs();
  const int64_t size = dataset->size();
  const auto inputs = data::normalized(std::move(dataset), file.about.normalization);
  data::Loader loader(inputs, {.batch = std::min(kEvaluationBatch, size),
                               .order = data::SampleOrder::sequential,
                               .last = data::LastBatch::keep});
  for (int64_t first = 0, i = 0; first < size; ++i) {
    const data::LoadedBatch& loaded = loader.next();
    const Batch batch = to_tensors(loaded, inputs->fields(), {0, loaded.whole}, c10::kCPU);
    torch::manual_seed(RandomStream(Purpose::evaluation, i).next());
    const Tensors outputs =
        outputs_of(model, batch.inputs, expected, {"prediction batch", i, batch.samples});
    const torch::Tensor rows = rows_of(outputs, expected, batch.samples, classes);
    take({first,
          batch.samples,
          {rows.data_ptr<float>(), static_cast<size_t>(rows.numel())},
          expected});
    first += batch.samples;
  }
}

}  // namespace lockstep::train
