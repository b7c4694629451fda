#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/command.h"
#include "run/comparison.h"

namespace lockstep::cli {
namespace {

using run::Comparison;

constexpr int kTheyDiffer = 1;
constexpr size_t kMostNamed = 5;

struct CompareFlags {
  std::string a;
  std::string b;
  bool json = false;
};

const char* to_string(Comparison::Result result) {
  switch (result) {
    case Comparison::Result::same:
      return "same";
    case Comparison::Result::other:
      return "other";
    case Comparison::Result::unfinished:
      return "unfinished";
  }
  return "";
}

std::string named(const std::vector<std::string>& tensors) {
  std::string text = tensors.front();
  for (size_t i = 1; i < std::min(tensors.size(), kMostNamed); ++i) text += ", " + tensors[i];
  if (tensors.size() > kMostNamed) text += fmt::format(" and {} more", tensors.size() - kMostNamed);
  return text;
}

void print(const Comparison& of) {
  switch (of.result) {
    case Comparison::Result::same:
      fmt::print("same result: the models are identical, bit for bit\n");
      break;
    case Comparison::Result::other:
      fmt::print("different result\n");
      break;
    case Comparison::Result::unfinished:
      fmt::print("at least one run is not finished{}\n",
                 of.differ() ? "; their logs differ already" : "; their logs agree so far");
  }
  for (const std::string& cause : of.causes) fmt::print("differs  {}\n", cause);
  if (of.parting) {
    if (of.parting->last_equal_step)
      fmt::print("equal    up to step {}\n", *of.parting->last_equal_step);
    fmt::print("diverged at step {}: {}\n", of.parting->step, named(of.parting->tensors));
  }
  if (of.first_other_loss) fmt::print("loss     first differs at step {}\n", *of.first_other_loss);
  if (of.result != Comparison::Result::other) return;
  if (of.causes.empty())
    fmt::print(
        "Recipe, data and versions are the same: did the machine type or the build differ?\n");
  if (!of.parting && of.digests_compared == 0)
    fmt::print("The runs have no step with digests in common: see log.digest_every_steps.\n");
}

nlohmann::ordered_json to_json(const Comparison& of) {
  nlohmann::ordered_json json = {{"result", to_string(of.result)},
                                 {"causes", of.causes},
                                 {"digests_compared", of.digests_compared}};
  if (of.parting) {
    json["parted_at_step"] = of.parting->step;
    json["tensors"] = of.parting->tensors;
    if (of.parting->last_equal_step) json["equal_until_step"] = *of.parting->last_equal_step;
  }
  if (of.first_other_loss) json["first_other_loss"] = *of.first_other_loss;
  return json;
}

class CompareCommand final : public Command {
 public:
  explicit CompareCommand(CLI::App& parent)
      : Command(parent, "compare",
                "Compare two runs, and find the first step at which they differ") {
    app().add_option("RUN_A", flags_.a, "a run's folder")->required();
    app().add_option("RUN_B", flags_.b, "another run's folder")->required();
    app().add_flag("--json", flags_.json, "print the comparison as one JSON object");
    app().footer(
        "Prints the recipe keys, data and versions that differ, with the values of RUN_A (A) and "
        "RUN_B (B),\n"
        "and the first step at which tensors differ (runs log digests every "
        "log.digest_every_steps\n"
        "steps). The exit code is 0 if nothing that both runs logged differs, and 1 "
        "otherwise.\n\n"
        "Example:\n"
        "  lockstep compare runs/monday runs/tuesday");
  }

  int run() override {
    const Comparison comparison = run::compare_runs(flags_.a, flags_.b);
    if (flags_.json)
      fmt::print("{}\n", to_json(comparison).dump());
    else
      print(comparison);
    return comparison.differ() ? kTheyDiffer : 0;
  }

 private:
  CompareFlags flags_;
};

}  // namespace

std::unique_ptr<Command> add_compare(CLI::App& parent) {
  return std::make_unique<CompareCommand>(parent);
}

}  // namespace lockstep::cli
