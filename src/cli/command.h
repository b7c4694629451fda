#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace lockstep::cli {

/// A subcommand: its flags, and what to do once they are read. `run` returns the exit code and
/// throws lockstep::Error.
struct Command {
  CLI::App* app;
  std::function<int()> run;
};

Command add_train(CLI::App& parent);
Command add_workers(CLI::App& parent);
Command add_list(CLI::App& parent);
Command add_compare(CLI::App& parent);
Command add_explain(CLI::App& parent);
Command add_bench(CLI::App& parent);
/// `program` is what stands after -- on the command line.
Command add_run(CLI::App& parent, std::vector<std::string> program);

/// `lockstep data` has subcommands of its own: list, get, check.
std::vector<Command> add_data(CLI::App& parent);

}  // namespace lockstep::cli
