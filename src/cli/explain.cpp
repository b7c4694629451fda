#include "cli/explain.h"

#include <fmt/format.h>

#include "base/shipped.h"

namespace lockstep::cli {

std::vector<std::unique_ptr<Command>> add_explain(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand(
      "explain", "Show how all-reduce algorithms or pipelines work and what they cost");
  app->allow_extras();
  app->footer(
      fmt::format("Both are simulated: see {} and\n"
                  "{}.\n"
                  "Examples:\n"
                  "  lockstep explain all_reduce -n 8\n"
                  "  lockstep explain all_reduce -n 4 --algorithm ring --svg ring.svg\n"
                  "  lockstep explain pipeline --stages 4 --micro-batches 8\n"
                  "  lockstep explain pipeline --schedule 1f1b --svg 1f1b.svg",
                  shipped("docs/algorithms.md"), shipped("docs/pipelines.md")));
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(add_explain_all_reduce(*app));
  commands.push_back(add_explain_pipeline(*app));
  return commands;
}

}  // namespace lockstep::cli
