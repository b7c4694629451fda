// Classification: the target is one of several categories. Options: label_smoothing, the fraction
// of the target that is spread evenly over all categories; class_weights, a factor of each sample's
// loss by its category (the mean divides by the sum of weights, as PyTorch's does). Targets may
// also be the probabilities of all categories; the most probable one then counts as the right one.
#include <ATen/ops/cross_entropy_loss.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "base/element.h"
#include "base/shipped.h"
#include "lockstep/error.h"
#include "objective/objectives.h"

namespace lockstep::objective {
namespace {

constexpr int64_t kTop = 5;

std::string describe(const std::vector<Field>& targets) {
  std::vector<std::string> texts;
  for (const Field& target : targets)
    texts.push_back(fmt::format(
        "'{}' ({}{})", target.name, name_of(target.type),
        target.shape.empty() ? "" : fmt::format(" {}", fmt::join(target.shape, " x "))));
  return fmt::format("{} target{}: {}", targets.size(), targets.size() == 1 ? "" : "s",
                     fmt::join(texts, ", "));
}

// As one-hot labels are.
bool are_numbers_in_a_row(const std::vector<Field>& targets) {
  return targets.size() == 1 && targets[0].shape.size() == 1 && targets[0].shape[0] > 1;
}

const Field& label_field(const Fields& fields) {
  if (fields.targets.size() != 1 || fields.targets[0].type != Type::i64 ||
      !fields.targets[0].shape.empty() || fields.targets[0].categories.empty())
    throw BadInput(
        "objective 'classification': needs data with one target that is a class label (i64), but "
        "this data has {}; for numeric targets use objective.name = \"regression\" ({}), for "
        "others an objective of your own ({})",
        describe(fields.targets),
        are_numbers_in_a_row(fields.targets)
            ? "one-hot labels are converted by y.argmax(1)"
            : "labels that NumPy stored as floats are converted by y.astype('int64')",
        shipped("docs/plugins.md"));
  return fields.targets[0];
}

torch::Tensor class_weights(const Options& options, int64_t classes) {
  const std::vector<double> given = options.numbers("class_weights", {});
  if (given.empty()) return {};
  if (static_cast<int64_t>(given.size()) != classes)
    throw BadInput(
        "objective.options.class_weights has {} weights: expected one for each of the {} "
        "classes",
        given.size(), classes);
  if (std::any_of(given.begin(), given.end(), [](double w) { return !(w >= 0 && w < 1e30); }))
    throw BadInput("objective.options.class_weights: expected weights of at least 0");
  return torch::tensor(given, torch::kFloat32);
}

class Classification final : public Objective {
 public:
  explicit Classification(const ObjectiveOptions& options)
      : classes_(static_cast<int64_t>(label_field(options.fields).categories.size())),
        smoothing_(options.options.number("label_smoothing", 0)),
        weights_(class_weights(options.options, classes_)),
        kernels_(options.kernels) {
    if (!(smoothing_ >= 0 && smoothing_ < 1))
      throw BadInput("objective.options.label_smoothing = {}: expected at least 0 and less than 1",
                     smoothing_);
  }

  std::vector<Field> outputs() const override { return {{"scores", Type::f32, {classes_}}}; }

  Loss loss(const Tensors& outputs, const Batch& batch) override {
    const torch::Tensor scores = scores_of(outputs, batch);
    const torch::Tensor& labels = batch.targets.only();
    if (are_probabilities(labels))
      return {
          at::cross_entropy_loss(scores, labels, weights_, at::Reduction::Sum, -100, smoothing_),
          weights_.defined() ? labels.matmul(weights_).sum().item<double>()
                             : static_cast<double>(batch.samples)};
    if (!weights_.defined())
      return {nn::cross_entropy(scores, labels, smoothing_, kernels_, nn::Reduce::sum),
              static_cast<double>(batch.samples)};
    return {at::cross_entropy_loss(scores, labels, weights_, at::Reduction::Sum, -100, smoothing_),
            weights_.index_select(0, labels).sum().item<double>()};
  }

  bool takes_probabilities() const override { return true; }

  std::vector<Metric> metrics() const override {
    using Print = Metric::Print;
    using When = Metric::When;
    std::vector<Metric> all = {{.name = "accuracy", .print = Print::percent}};
    if (classes_ > kTop)
      all.push_back({.name = "top5_accuracy", .print = Print::percent, .when = When::evaluation});
    all.push_back({.name = "class_accuracy",
                   .print = Print::percent,
                   .when = When::evaluation,
                   .shape = {classes_}});
    all.push_back({.name = "confusion",
                   .combine = Metric::Combine::sum,
                   .when = When::evaluation,
                   .shape = {classes_, classes_}});
    return all;
  }

  std::vector<Measurement> measure(const Tensors& outputs, const Batch& batch,
                                   Phase phase) override {
    const torch::Tensor scores = scores_of(outputs, batch);
    const torch::Tensor& targets = batch.targets.only();
    const torch::Tensor labels = are_probabilities(targets) ? targets.argmax(1) : targets;
    const auto samples = static_cast<double>(batch.samples);
    const torch::Tensor guesses = scores.argmax(1);
    std::vector<Measurement> all = {{guesses.eq(labels).sum().item<double>(), samples}};
    if (phase == Phase::training) return all;
    if (classes_ > kTop) {
      const torch::Tensor best = std::get<1>(scores.topk(kTop, 1));
      all.emplace_back(best.eq(labels.unsqueeze(1)).any(1).sum().item<double>(), samples);
    }
    // Rows are true classes, columns predicted ones.
    const torch::Tensor confusion =
        torch::bincount(labels * classes_ + guesses, {}, classes_ * classes_)
            .view({classes_, classes_});
    all.emplace_back(confusion.diagonal(), confusion.sum(1));
    all.emplace_back(confusion);
    return all;
  }

 private:
  static bool are_probabilities(const torch::Tensor& targets) {
    return targets.is_floating_point();
  }

  torch::Tensor scores_of(const Tensors& outputs, const Batch& batch) const {
    const torch::Tensor& scores = outputs.only();
    if (scores.dim() != 2 || scores.size(0) != batch.samples || scores.size(1) != classes_)
      throw BadInput(
          "the model returned scores of shape {}: expected {} x {}, a score for each class",
          fmt::join(scores.sizes(), " x "), batch.samples, classes_);
    return scores;
  }

  const int64_t classes_;
  const double smoothing_;
  const torch::Tensor weights_;  ///< undefined: all 1
  const nn::Kernels kernels_;
};

const bool classification_added = objectives().add(
    {"classification", "one of several classes; options: label_smoothing, class_weights",
     [](const ObjectiveOptions& options) -> std::unique_ptr<Objective> {
       return std::make_unique<Classification>(options);
     }});

}  // namespace
}  // namespace lockstep::objective
