#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/table.h"
#include "cli/command.h"
#include "cli/settings.h"
#include "collective/plan/all_reduce.h"
#include "data/datasets.h"
#include "device/kinds.h"
#include "job/trainer_library.h"
#include "lockstep/error.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "pipeline/schedule.h"
#include "transport/transports.h"

namespace lockstep::cli {
namespace {

struct ListFlags {
  std::string table;
  std::vector<std::string> plugins;
};

// Models and objectives are in liblockstep, which takes half a second to load.
std::string trained_things(const std::string& table) {
  return job::load_trainer().get()->list(table);
}

using Help = std::string (*)();
const std::map<std::string, Help>& tables_here() {
  static const std::map<std::string, Help> tables = {
      {"algorithms", [] { return collective::algorithms().help(); }},
      {"datasets", [] { return data::datasets().help(); }},
      {"devices", [] { return device_kinds().help(); }},
      {"optimizers", [] { return optim::optimizers().help(); }},
      {"pipeline-schedules", [] { return pipeline::pipeline_schedules().help(); }},
      {"schedules", [] { return optim::schedules().help(); }},
      {"transports", [] { return transport::transports().help(); }}};
  return tables;
}

std::vector<std::string> table_names() {
  std::vector<std::string> names = {"models", "objectives"};
  for (const auto& [name, help] : tables_here()) names.push_back(name);
  return names;
}

int list(const ListFlags& flags) {
  job::load_plugins(flags.plugins);
  const std::vector<std::string> names = table_names();
  if (!flags.table.empty() && std::find(names.begin(), names.end(), flags.table) == names.end())
    throw BadInput("'{}': no such table{}; there are: {}", flags.table,
                   did_you_mean(flags.table, names), fmt::join(names, ", "));
  for (const std::string& name : names) {
    if (!flags.table.empty() && name != flags.table) continue;
    const auto here = tables_here().find(name);
    fmt::print("{}\n{}", name, here == tables_here().end() ? trained_things(name) : here->second());
  }
  return 0;
}

class ListCommand final : public Command {
 public:
  explicit ListCommand(CLI::App& parent)
      : Command(parent, "list",
                "List models, objectives, data sets and everything else that has a name") {
    app()
        .add_option("TABLE", flags_.table,
                    fmt::format("{} (default: all)", fmt::join(table_names(), ", ")))
        ->type_name("");
    add_load_flag(app(), flags_.plugins);
    app().footer(
        "Examples:\n"
        "  lockstep list models\n"
        "  lockstep list --load libmine.so");
  }

  int run() override { return list(flags_); }

 private:
  ListFlags flags_;
};

}  // namespace

std::unique_ptr<Command> add_list(CLI::App& parent) {
  return std::make_unique<ListCommand>(parent);
}

}  // namespace lockstep::cli
