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
      fmt::print("the same result: one model, bit for bit\n");
      break;
    case Comparison::Result::other:
      fmt::print("another result\n");
      break;
    case Comparison::Result::unfinished:
      fmt::print(
          "not both runs are at their end{}\n",
          of.differ() ? "; they have parted" : "; so far they agree in all that both logged");
  }
  for (const std::string& cause : of.causes) fmt::print("differs  {}\n", cause);
  if (of.parting) {
    if (of.parting->last_equal_step)
      fmt::print("equal    until step {}\n", *of.parting->last_equal_step);
    fmt::print("parted   at step {}: {}\n", of.parting->step, named(of.parting->tensors));
  }
  if (of.first_other_loss) fmt::print("loss     first differs at step {}\n", *of.first_other_loss);
  if (of.result != Comparison::Result::other) return;
  if (of.causes.empty())
    fmt::print(
        "Nothing that went in differs: was it the same type of machine, and the same build?\n");
  if (!of.parting && of.digests_compared == 0)
    fmt::print("No step has digests of both: see log.digest_every_steps.\n");
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
      : Command(parent, "compare", "Say why two runs have, or have not, one result") {
    app().add_option("RUN_A", flags_.a, "a run's folder")->required();
    app().add_option("RUN_B", flags_.b, "another's")->required();
    app().add_flag("--json", flags_.json, "print one object");
    app().footer(
        "Tells which recipe keys, data or versions differ, and from which step on which tensors "
        "did\n"
        "(runs log digests every log.digest_every_steps steps). Ends with 0 where nothing that "
        "both\n"
        "logged differs, and with 1 where something does.\n\n"
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
