#include "cli/train_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/shipped.h"
#include "cli/placement_flags.h"
#include "cli/settings.h"
#include "collective/plan/all_reduce.h"
#include "transport/transports.h"

namespace lockstep::cli {
namespace {

void add_elastic_flags(CLI::App& app, job::ElasticFlags& flags) {
  app.add_flag("--elastic", flags.on,
               "continue when workers die, replace them, and let more workers join");
  app.add_option("--min-workers", flags.least,
                 "with --elastic: with fewer workers, write a checkpoint and stop (default 1)")
      ->type_name("N");
  app.add_option("--max-workers", flags.most,
                 "with --elastic: at most this many workers (default: the number of shards)")
      ->type_name("N");
  app.add_option("--join", flags.join,
                 "join a running elastic job: its --master address; needs its LOCKSTEP_JOB_KEY")
      ->type_name("HOST:PORT");
}

void add_transport_flags(CLI::App& app, TrainFlags& flags) {
  app.add_option(
         "--transport", flags.transport,
         fmt::format("{} or auto (default)", fmt::join(transport::transports().names(), ", ")))
      ->type_name("NAME");
  app.add_option("--algorithm", flags.algorithm,
                 fmt::format("of all_reduce: {} or auto (default)",
                             fmt::join(collective::algorithms().names(), ", ")))
      ->type_name("NAME");
  app.add_option("--silence", flags.silence,
                 fmt::format("heartbeat timeout: a worker that sends no heartbeat for this many "
                             "seconds counts as lost (default {:g})",
                             launch::ConnectOptions{}.silence_seconds))
      ->type_name("SECONDS");
}

void add_folder_flags(CLI::App& app, TrainFlags& flags) {
  app.add_option(
         "--out", flags.out,
         "the run's folder (default: runs/NAME-N, where NAME is the recipe's, else DATA-MODEL)")
      ->type_name("DIR");
  app.add_flag("--resume", flags.resume, "continue the run in --out from its last checkpoint");
  app.add_flag("--force", flags.force,
               "allow --resume with a changed recipe, and an --algorithm whose result depends on "
               "the number of workers");
  app.add_option("--stop-at-step", flags.stop_at_step, "stop after this step, with a checkpoint")
      ->type_name("N");
  app.add_flag("--print-recipe", flags.print_recipe,
               "print the whole recipe, every key with its meaning, and train nothing");
  app.add_flag("--verbose", flags.verbose, "print what --algorithm auto measured");
  app.add_flag("--json", flags.json, "print the result as one JSON object on stdout");
}

}  // namespace

void hide(TrainFlags& flags, std::initializer_list<std::string_view> refused) {
  for (KeyFlag& flag : flags.keys) {
    if (std::ranges::find(refused, flag.flag) != refused.end()) flag.about.clear();
    if (flag.flag == "--batch") flag.about = "samples per step, over all workers";
  }
}

void add_recipe_flags(CLI::App& app, TrainFlags& flags) {
  app.add_option("RECIPE", flags.recipe,
                 "a TOML file (default, but for lab: convnet on fashion-mnist)")
      ->type_name("");
  for (KeyFlag& flag : flags.keys) {
    CLI::Option* const option =
        flag.kind.empty() ? app.add_flag_callback(
                                flag.flag, [&flag] { flag.value = "true"; }, flag.about)
                          : app.add_option(flag.flag, flag.value, flag.about)->type_name(flag.kind);
    if (flag.about.empty()) option->group("");
  }
  app.add_option("--set", flags.settings,
                 "set any recipe key, whatever other flags say: --set optimizer.momentum=0.95")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  add_load_flag(app, flags.plugins);
}

void add_train_flags(CLI::App& app, TrainFlags& flags) {
  add_recipe_flags(app, flags);
  add_placement_flags(app, flags.placement);
  app.add_option("--devices", flags.placement.devices,
                 "devices of this host, which its workers take in turn: how many virtual ones "
                 "(virtual:4), or which ones (virtual:0,2 or cuda:0,1)")
      ->type_name("KIND:LIST");
  add_elastic_flags(app, flags.elastic);
  add_transport_flags(app, flags);
  add_folder_flags(app, flags);
  app.footer(fmt::format(
      "Ctrl-C stops the run after the current step, with a checkpoint.\n"
      "Examples:\n"
      "  lockstep train {0}\n"
      "  lockstep train {0} --workers 2\n"
      "  lockstep train --data cifar10 --model resnet20 --epochs 2 --out runs/first\n"
      "  lockstep train --resume --out runs/first\n"
      "  lockstep train --model resnet20 --data cifar10 --print-recipe > mine.toml\n"
      "  lockstep train --load libmine.so --model mine --data npy:my-data\n"
      "  lockstep train --data npy:my-data --model mlp --set optimizer.name=adamw --lr 0.001 "
      "--json",
      shipped("recipes/fashion-convnet.toml")));
}

}  // namespace lockstep::cli
