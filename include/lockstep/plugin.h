#pragma once

#include <memory>
#include <string>

#include "lockstep/dataset.h"
#include "lockstep/main.h"
#include "lockstep/model.h"
#include "lockstep/objective.h"
#include "lockstep/version.h"

namespace lockstep {

/// Makes a model for a run. Throws BadInput for options that do not fit.
using MakeModel = std::shared_ptr<Model> (*)(const ModelOptions&);
/// Makes an objective for a run. Throws BadInput for options or data that do not fit.
using MakeObjective = std::unique_ptr<Objective> (*)(const ObjectiveOptions&);
/// Opens a data set. The test split may be missing: a part of the training split is then held out.
using MakeDataset = Splits (*)(const DatasetOptions&);

/// Where a plugin adds what it brings. Each throws BadInput when the name is taken or not a name:
/// letters, digits, '-' and '_'. `about` is one line for `lockstep list`.
class Registry {
 public:
  /// Adds a model.
  void add_model(const std::string& name, const std::string& about, MakeModel make);
  /// Adds an objective.
  void add_objective(const std::string& name, const std::string& about, MakeObjective make);
  /// Adds a data set.
  void add_dataset(const std::string& name, const std::string& about, MakeDataset make);
};

/// What LOCKSTEP_PLUGIN defines: adds what the plugin brings.
using Plugin = void (*)(Registry& registry);

/// Remembers `plugin`, to be called once it is known to fit. Returns true.
bool add_plugin(Plugin plugin);

}  // namespace lockstep

/// Models, data sets and objectives of your own, by name:
///
///     LOCKSTEP_PLUGIN(registry) {
///       registry.add_model("line", "one linear layer",
///                          [](const lockstep::ModelOptions& options) {
///                            return std::shared_ptr<lockstep::Model>(new Line(options));
///                          });
///     }
///
/// As a shared library: `lockstep train --load libline.so --model line`. Linked into a program
/// whose main is `return lockstep::main(argc, argv);`, they are there without --load.
#define LOCKSTEP_PLUGIN(registry)                                                            \
  extern "C" [[gnu::weak, gnu::visibility("default")]] const char* lockstep_plugin_build() { \
    return LOCKSTEP_BUILD;                                                                   \
  }                                                                                          \
  static void lockstep_plugin_here(::lockstep::Registry& registry);                          \
  [[maybe_unused]] static const bool lockstep_plugin_added =                                 \
      ::lockstep::add_plugin(&lockstep_plugin_here);                                         \
  static void lockstep_plugin_here(::lockstep::Registry& registry)
