#include "cli/lab.h"

#include <fmt/format.h>

#include "base/shipped.h"

namespace lockstep::cli {

std::vector<std::unique_ptr<Command>> add_lab(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand(
      "lab", "Measure ways to train a recipe against each other, by training");
  app->allow_extras();
  app->footer(
      fmt::format("See {}.\n"
                  "Examples:\n"
                  "  lockstep lab dp-vs-ddp\n"
                  "  lockstep lab dp-vs-ddp --model convnet --devices 1,2 --json",
                  shipped("docs/parallelism.md")));
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(add_lab_dp_vs_ddp(*app));
  return commands;
}

}  // namespace lockstep::cli
