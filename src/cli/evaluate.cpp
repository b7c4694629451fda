#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/command.h"
#include "cli/settings.h"
#include "cli/tell.h"
#include "job/inference.h"
#include "observe/progress.h"

namespace lockstep::cli {
namespace {

struct EvaluateFlags {
  std::string model;
  std::string data;
  std::string split = "test";
  std::vector<std::string> settings;
  std::vector<std::string> plugins;
  bool json = false;
};

job::EvaluateJob job_of(const EvaluateFlags& flags) {
  job::EvaluateJob job{.model = flags.model, .plugins = flags.plugins};
  if (flags.split == "train")
    job.split = job::EvaluateJob::Split::train;
  else if (flags.split == "validation")
    job.split = job::EvaluateJob::Split::validation;
  else if (flags.split != "test")
    throw BadInput("--split {}: expected test, validation or train", flags.split);
  if (flags.data.empty()) {
    if (!flags.settings.empty())
      throw BadInput(
          "--set {}: needs --data: without it, the model's own data and options are used",
          flags.settings.front());
    return job;
  }
  job.data = flags.data;
  job.change = [settings = flags.settings](Recipe& recipe) { apply_settings(recipe, settings); };
  return job;
}

void print(const run::Json& result) {
  const auto samples = result["samples"].get<int64_t>();
  const double speed = static_cast<double>(samples) / result["seconds"].get<double>();
  std::vector<std::pair<std::string, std::string>> lines = {{"loss", format_loss(result["loss"])}};
  for (auto& figure : observe::describe_figures(result, result["metrics"], "", 2))
    lines.push_back(std::move(figure));
  const auto split = result["split"].get<std::string>();
  lines.emplace_back("samples",
                     fmt::format("{} of {} ({}), {} samples/s", format_count(samples),
                                 result["data"].get<std::string>(),
                                 split == "all" ? "all: they have no test split" : split + " split",
                                 format_count(static_cast<int64_t>(speed))));
  lines.emplace_back("model", result["model"].get<std::string>());
  print_lines(lines);
}

class EvaluateCommand final : public Command {
 public:
  explicit EvaluateCommand(CLI::App& parent)
      : Command(parent, "evaluate", "Measure loss and metrics of a trained model on a data set") {
    app()
        .add_option("RUN", flags_.model, "a run's folder, or a model.safetensors or checkpoint")
        ->required()
        ->type_name("RUN|FILE");
    app()
        .add_option("--data", flags_.data,
                    "a data set of `lockstep list datasets` (default: the model's own)")
        ->type_name("NAME");
    app()
        .add_option("--split", flags_.split,
                    "test (default; all samples of other data without one), validation or train")
        ->type_name("SPLIT");
    app()
        .add_option("--set", flags_.settings,
                    "set a [data] key for --data, such as data.options.image_size=32")
        ->allow_extra_args(false)
        ->type_name("KEY=VALUE");
    add_load_flag(app(), flags_.plugins);
    app().add_flag("--json", flags_.json, "print the result as one JSON object");
    app().footer(
        "Inputs are normalized as they were when the model was trained. Classes are matched by "
        "name.\n"
        "Examples:\n"
        "  lockstep evaluate runs/mine\n"
        "  lockstep evaluate runs/mine/model.safetensors --data npy:new-data --json");
  }

  int run() override {
    const run::Json result = job::evaluate(job_of(flags_));
    if (result.contains("warning")) tell("warning: " + result["warning"].get<std::string>());
    if (flags_.json)
      fmt::print("{}\n", result.dump());
    else
      print(result);
    return 0;
  }

 private:
  EvaluateFlags flags_;
};

}  // namespace

std::unique_ptr<Command> add_evaluate(CLI::App& parent) {
  return std::make_unique<EvaluateCommand>(parent);
}

}  // namespace lockstep::cli
