#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::cli {

/// A subcommand. Its constructor declares flags, which are parsed into its members; then `run` is
/// called, which returns the exit code and throws lockstep::Error.
class Command {
 public:
  Command(CLI::App& parent, const std::string& name, const std::string& about)
      : app_(*parent.add_subcommand(name, about)) {
    app_.allow_extras();  // reported by the caller, with the nearest known word
  }
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  virtual int run() = 0;

  CLI::App& app() const { return app_; }

 private:
  CLI::App& app_;
};

std::unique_ptr<Command> add_train(CLI::App& parent);
std::unique_ptr<Command> add_evaluate(CLI::App& parent);
std::unique_ptr<Command> add_predict(CLI::App& parent);
std::unique_ptr<Command> add_workers(CLI::App& parent);
std::unique_ptr<Command> add_list(CLI::App& parent);
std::unique_ptr<Command> add_compare(CLI::App& parent);
std::unique_ptr<Command> add_bench(CLI::App& parent);
std::unique_ptr<Command> add_doctor(CLI::App& parent);
std::unique_ptr<Command> add_matpow(CLI::App& parent);
std::unique_ptr<Command> add_fit(CLI::App& parent);
/// `program` holds the words after -- on the command line.
std::unique_ptr<Command> add_run(CLI::App& parent, std::vector<std::string> program);

/// `lockstep data` has subcommands of its own: list, get, check.
std::vector<std::unique_ptr<Command>> add_data(CLI::App& parent);

/// `lockstep explain` has a subcommand for each operation: all_reduce, pipeline.
std::vector<std::unique_ptr<Command>> add_explain(CLI::App& parent);

/// `lockstep lab` has a subcommand for each experiment: dp-vs-ddp.
std::vector<std::unique_ptr<Command>> add_lab(CLI::App& parent);

}  // namespace lockstep::cli
