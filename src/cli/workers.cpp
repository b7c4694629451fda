#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "base/shipped.h"
#include "cli/command.h"
#include "elastic/controller.h"
#include "lockstep/error.h"
#include "run/control.h"

namespace lockstep::cli {
namespace {

struct WorkersFlags {
  std::string run;
  std::optional<int> set;
};

int show_workers(const WorkersFlags& flags) {
  try {
    const run::ControlAddress at = run::read_control(flags.run);
    const elastic::MemberOptions job = {.host = at.host, .port = at.port, .key = at.key};
    fmt::print("{}", elastic::control(job, {.workers = flags.set}));
  } catch (const Timeout&) {
    throw BadInput("{}: no elastic run is active in this folder: its coordinator does not answer",
                   flags.run);
  }
  return 0;
}

class WorkersCommand final : public Command {
 public:
  explicit WorkersCommand(CLI::App& parent)
      : Command(parent, "workers", "Show the workers of an elastic run, or change their number") {
    app().add_option("RUN", flags_.run, "the run's folder")->type_name("")->required();
    app()
        .add_option(
            "--set", flags_.set,
            "use this many workers from the next step on, within --min-workers and --max-workers")
        ->type_name("N");
    app().footer(
        fmt::format("Examples:\n"
                    "  lockstep train {} --workers 2 --elastic --out runs/mine\n"
                    "  lockstep workers runs/mine\n"
                    "  lockstep workers runs/mine --set 4",
                    shipped("recipes/fashion-convnet.toml")));
  }

  int run() override { return show_workers(flags_); }

 private:
  WorkersFlags flags_;
};

}  // namespace

std::unique_ptr<Command> add_workers(CLI::App& parent) {
  return std::make_unique<WorkersCommand>(parent);
}

}  // namespace lockstep::cli
