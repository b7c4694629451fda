#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "base/shipped.h"
#include "cli/command.h"
#include "cli/fit_print.h"
#include "cli/tell.h"
#include "cli/train_flags.h"
#include "cli/train_recipe.h"
#include "job/fit_job.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

// One line on a terminal, which the next one replaces.
void show_progress(const std::string& what) {
  if (isatty(STDERR_FILENO) != 0) std::fputs(fmt::format("\r\033[K{}", what).c_str(), stderr);
}

class FitCommand final : public Command {
 public:
  explicit FitCommand(CLI::App& parent)
      : Command(parent, "fit",
                "Find out what fits into devices' memory, and how to train the rest") {
    hide(flags_.train, {"--parallel", "--stages", "--schedule", "--split", "--zero"});
    add_recipe_flags(app(), flags_.train);
    app()
        .add_option("--devices", flags_.train.placement.devices,
                    "measure on the first of these devices: virtual:2, as for train")
        ->type_name("KIND:LIST");
    app()
        .add_option("--max-devices", flags_.most_devices,
                    "ways with more devices are left out (default 64)")
        ->type_name("N");
    app()
        .add_option("--latency", flags_.latency_us,
                    "microseconds of a message between devices (default 10)")
        ->type_name("US");
    app()
        .add_option("--bandwidth", flags_.gigabits,
                    "gigabits per second between devices (default: as this host copies memory)")
        ->type_name("GBIT");
    app().add_flag("--json", flags_.json, "print one JSON object per way");
    app().footer(fmt::format(
        "Real passes are measured in this process on a device whose memory is counted.\n"
        "Examples:\n"
        "  lockstep fit {0} --device-memory 16MiB --batch 512\n"
        "  lockstep fit --data cifar10 --model resnet18 --batch 256 --device-memory 1GiB\n"
        "  lockstep fit --load libmine.so --model mine --batch 64 --device-memory 8GiB --json",
        shipped("recipes/fashion-convnet.toml")));
  }

  int run() override {
    refuse_what_ways_have();
    if (flags_.most_devices < 1)
      throw BadInput("--max-devices {}: expected 1 or more", flags_.most_devices);
    if (!(flags_.latency_us >= 0))
      throw BadInput("--latency {}: expected 0 or more microseconds", flags_.latency_us);
    if (!(flags_.gigabits >= 0))
      throw BadInput("--bandwidth {}: expected 0 or more gigabits per second", flags_.gigabits);
    Recipe recipe = requested_recipe(flags_.train, FolderAccess::elsewhere).recipe;
    flags_.mode = std::exchange(recipe.parallel.mode, "ddp");  // ways are none of "dp"
    if (recipe.train.compress != "none" || recipe.optimizer.clip_norm > 0)
      tell(
          "memory that train.compress and optimizer.clip_norm need is not in these figures: leave "
          "some of it free");
    const job::FitResult found = job::find_what_fits({.recipe = recipe,
                                                      .plugins = flags_.train.plugins,
                                                      .devices = flags_.train.placement.devices,
                                                      .most_devices = flags_.most_devices,
                                                      .latency = flags_.latency_us / 1e6,
                                                      .bytes_per_second = flags_.gigabits * 1e9 / 8,
                                                      .tell = show_progress});
    show_progress("");
    if (flags_.json)
      print_json(found, flags_, recipe);
    else
      print_text(found, flags_, recipe);
    return 0;
  }

 private:
  void refuse_what_ways_have() const {
    for (const KeyFlag& flag : flags_.train.keys) {
      if (!flag.value) continue;
      if (flag.flag == "--batch" && *flag.value == "auto")
        throw BadInput(
            "--batch auto: fit says itself what the largest batch of a device is; give the batch "
            "that you want, or use `lockstep train --batch auto`");
      if (flag.flag == "--parallel" || flag.flag == "--stages" || flag.flag == "--split" ||
          flag.flag == "--schedule" || flag.flag == "--zero")
        throw BadInput(
            "{}: fit finds the ways to train by itself, with and without it; leave it out",
            flag.flag);
    }
  }

  FitFlags flags_;
};

}  // namespace

std::unique_ptr<Command> add_fit(CLI::App& parent) {
  return std::make_unique<FitCommand>(parent);
}

}  // namespace lockstep::cli
