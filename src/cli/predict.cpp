#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/settings.h"
#include "cli/tell.h"
#include "data/dataset.h"
#include "job/inference.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

using run::Json;

struct PredictFlags {
  std::string model;
  std::vector<std::string> files;
  int64_t top = 1;
  std::vector<std::string> plugins;
  bool json = false;
};

// The names of classes, if the model tells classes apart.
const std::vector<std::string>* classes_of(const std::vector<Field>& targets) {
  const bool classes = targets.size() == 1 && targets[0].shape.empty();
  return classes && !targets[0].categories.empty() ? &targets[0].categories : nullptr;
}

// One of several outputs of a model, for one sample.
struct Output {
  const Field& field;
  std::span<const float> values;
  const std::vector<std::string>* classes;  ///< if the values are their scores
};

// The categories that an output's values are the scores of: its own, or those of its target.
const std::vector<std::string>* scored_classes(const Field& output, size_t count,
                                               const std::vector<Field>& targets) {
  if (!output.categories.empty() && output.categories.size() == count) return &output.categories;
  for (const Field& target : targets)
    if (target.name == output.name && !target.categories.empty() &&
        target.categories.size() == count)
      return &target.categories;
  return nullptr;
}

std::vector<Output> outputs_in(std::span<const float> row, const std::vector<Field>& fields,
                               const std::vector<Field>& targets) {
  std::vector<Output> outputs;
  for (const Field& field : fields) {
    const auto count = static_cast<size_t>(data::elements(field.shape));
    outputs.push_back({field, row.first(count), scored_classes(field, count, targets)});
    row = row.subspan(count);
  }
  return outputs;
}

// The numbers of the classes with the highest probabilities, highest first.
std::vector<size_t> best_of(std::span<const float> row, int64_t top) {
  std::vector<size_t> order(row.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto many = std::min(static_cast<size_t>(top), row.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(many), order.end(),
                    [&](size_t a, size_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
  order.resize(many);
  return order;
}

// Prints one line per sample.
class Printer {
 public:
  explicit Printer(const PredictFlags& flags) : flags_(flags) {}

  void print(const job::Predicted& of, const train::PredictedRows& predicted) {
    const size_t width = predicted.values.size() / static_cast<size_t>(predicted.rows);
    for (int64_t i = 0; i < predicted.rows; ++i) {
      const auto row = predicted.values.subspan(static_cast<size_t>(i) * width, width);
      const std::string name = of.inputs.name(predicted.first + i);
      const auto* const classes = classes_of(of.targets);
      if (predicted.outputs.size() > 1) {
        const std::vector<Output> outputs = outputs_in(row, predicted.outputs, of.targets);
        fmt::print("{}\n", flags_.json ? json_of(name, outputs).dump()
                                       : start_of_line(name, of.inputs) + text_of(outputs));
        continue;
      }
      fmt::print("{}\n", flags_.json ? json_of(name, row, classes).dump()
                                     : start_of_line(name, of.inputs) + text_of(row, classes));
    }
    samples_ += predicted.rows;
  }

  void tell_speed() const {
    const double seconds = stopwatch_.seconds();
    tell(fmt::format("{} sample{} in {:.1f} s, {:.4g} samples/s with loading",
                     format_count(samples_), samples_ == 1 ? "" : "s", seconds,
                     static_cast<double>(samples_) / seconds));
  }

 private:
  Json json_of(const std::string& name, std::span<const float> row,
               const std::vector<std::string>* classes) const {
    Json json = {{"input", name}};
    if (classes == nullptr) {
      json["outputs"] = std::vector<float>(row.begin(), row.end());
      return json;
    }
    const size_t best = best_of(row, 1)[0];
    json["class"] = (*classes)[best];
    json["label"] = best;
    json["probability"] = row[best];
    json["probabilities"] = std::vector<float>(row.begin(), row.end());
    return json;
  }

  static Json json_of(const std::string& name, const std::vector<Output>& outputs) {
    Json json = {{"input", name}, {"outputs", Json::object()}};
    for (const Output& output : outputs) {
      const std::vector<float> values(output.values.begin(), output.values.end());
      Json& named = json["outputs"][output.field.name];
      if (output.classes == nullptr) {
        named = values;
        continue;
      }
      const size_t best = best_of(output.values, 1)[0];
      named = {{"class", (*output.classes)[best]}, {"label", best}, {"scores", values}};
    }
    return json;
  }

  std::string start_of_line(const std::string& name, const data::InputFiles& inputs) {
    if (name_width_ == 0)
      for (int64_t i = 0; i < inputs.size(); ++i)
        name_width_ = std::max(name_width_, inputs.name(i).size());
    return fmt::format("{:<{}}", name, name_width_);
  }

  // "  kind: cat  size: 0.31".
  static std::string text_of(const std::vector<Output>& outputs) {
    std::string text;
    for (const Output& output : outputs) {
      text += fmt::format("  {}:", output.field.name);
      if (output.classes != nullptr)
        text += " " + (*output.classes)[best_of(output.values, 1)[0]];
      else
        for (const float value : output.values) text += fmt::format(" {:.6g}", value);
    }
    return text;
  }

  std::string text_of(std::span<const float> row, const std::vector<std::string>* classes) const {
    std::string line;
    if (classes == nullptr)
      for (const float value : row) line += fmt::format("  {:.6g}", value);
    else
      for (const size_t label : best_of(row, flags_.top))
        line += fmt::format("  {} {:.1f} %", (*classes)[label], 100 * row[label]);
    return line;
  }

  const PredictFlags& flags_;
  size_t name_width_ = 0;
  int64_t samples_ = 0;
  const Stopwatch stopwatch_;
};

int predict(const PredictFlags& flags) {
  if (flags.top < 1) throw BadInput("--top {}: expected at least 1", flags.top);
  job::PredictJob job{.model = flags.model, .plugins = flags.plugins};
  for (const std::string& file : flags.files) job.files.emplace_back(file);
  Printer printer(flags);
  job::predict(job, [&](const job::Predicted& of, const train::PredictedRows& rows) {
    printer.print(of, rows);
  });
  printer.tell_speed();
  return 0;
}

class PredictCommand final : public Command {
 public:
  explicit PredictCommand(CLI::App& parent)
      : Command(parent, "predict", "Use a trained model on images or arrays") {
    app()
        .add_option("RUN", flags_.model, "a run's folder, or a model.safetensors or checkpoint")
        ->required()
        ->type_name("RUN|FILE");
    app()
        .add_option(
            "FILES", flags_.files,
            "images (PNG, JPEG), folders of images (without their subfolders), or .npy arrays")
        ->required()
        ->type_name("FILE...");
    app()
        .add_option("--top", flags_.top,
                    "print this many classes, the most probable first (--json: always all)")
        ->type_name("K");
    add_load_flag(app(), flags_.plugins);
    app().add_flag("--json", flags_.json, "print one JSON object per sample, with all outputs");
    app().footer(
        "Images must have the size that the model was trained on, unless it was trained with\n"
        "data.options.image_size, which scales them. Models of classes print probabilities, "
        "others\n"
        "their outputs, by their names if there are several.\n"
        "Examples:\n"
        "  lockstep predict runs/mine cat.png dog.jpg --top 3\n"
        "  lockstep predict runs/mine x.npy --json");
  }

  int run() override { return predict(flags_); }

 private:
  PredictFlags flags_;
};

}  // namespace

std::unique_ptr<Command> add_predict(CLI::App& parent) {
  return std::make_unique<PredictCommand>(parent);
}

}  // namespace lockstep::cli
