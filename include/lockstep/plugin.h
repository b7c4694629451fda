#pragma once

#include <memory>
#include <string>

#include "lockstep/dataset.h"
#include "lockstep/main.h"
#include "lockstep/model.h"
#include "lockstep/objective.h"
#include "lockstep/version.h"

/// Models, data sets and objectives of your own, by name:
///
///     LOCKSTEP_PLUGIN(registry) {
///       registry.add_model("mine", "three layers", [](const lockstep::ModelOptions& options)
///           -> std::shared_ptr<lockstep::Model> { return std::make_shared<Mine>(options); });
///     }
///
/// As a shared library: `lockstep train --load libmine.so --model mine`. Linked into a program
/// whose main is `return lockstep::main(argc, argv);`, they are there without --load.
namespace lockstep {

using MakeModel = std::shared_ptr<Model> (*)(const ModelOptions&);
using MakeObjective = std::unique_ptr<Objective> (*)(const ObjectiveOptions&);
/// The test split may be missing: a part of the training split is then held out.
using MakeDataset = Splits (*)(const DatasetOptions&);

/// Where a plugin adds what it brings. Each throws BadInput when the name is taken or not a name:
/// letters, digits, '-' and '_'. `about` is one line for `lockstep list`.
class Registry {
 public:
  void add_model(const std::string& name, const std::string& about, MakeModel make);
  void add_objective(const std::string& name, const std::string& about, MakeObjective make);
  void add_dataset(const std::string& name, const std::string& about, MakeDataset make);
};

using Plugin = void (*)(Registry& registry);

/// Remembers `plugin`, to be called once it is known to fit. Returns true.
bool add_plugin(Plugin plugin);

}  // namespace lockstep

#define LOCKSTEP_PLUGIN(registry)                                                            \
  extern "C" [[gnu::weak, gnu::visibility("default")]] const char* lockstep_plugin_build() { \
    return LOCKSTEP_BUILD;                                                                   \
  }                                                                                          \
  static void lockstep_plugin_here(::lockstep::Registry& registry);                          \
  [[maybe_unused]] static const bool lockstep_plugin_added =                                 \
      ::lockstep::add_plugin(&lockstep_plugin_here);                                         \
  static void lockstep_plugin_here(::lockstep::Registry& registry)
