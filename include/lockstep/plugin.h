#pragma once

#include <memory>
#include <string>

#include "lockstep/dataset.h"
#include "lockstep/main.h"
#include "lockstep/model.h"
#include "lockstep/objective.h"
#include "lockstep/sequential_model.h"
#include "lockstep/version.h"

namespace lockstep {

/// Makes a model. Throws BadInput for wrong options.
using MakeModel = std::shared_ptr<Model> (*)(const ModelOptions&);
/// Makes an objective. Throws BadInput for wrong options or data.
using MakeObjective = std::unique_ptr<Objective> (*)(const ObjectiveOptions&);
/// Opens a data set. Without a test split, a part of the training split is held out.
using MakeDataset = Splits (*)(const DatasetOptions&);

/// Registers what a plugin provides. Names consist of letters, digits, '-' and '_'; `about` is one
/// line for `lockstep list`. Each function throws BadInput if the name is invalid or already used.
class Registry {
 public:
  /// Adds a model.
  void add_model(const std::string& name, const std::string& about, MakeModel make);
  /// Adds an objective.
  void add_objective(const std::string& name, const std::string& about, MakeObjective make);
  /// Adds a data set.
  void add_dataset(const std::string& name, const std::string& about, MakeDataset make);
};

/// The function that LOCKSTEP_PLUGIN defines: it registers what the plugin provides.
using Plugin = void (*)(Registry& registry);

/// Queues `plugin`: it is called after the versions have been compared. Returns true.
bool add_plugin(Plugin plugin);

}  // namespace lockstep

/// Registers your own models, data sets and objectives:
///
///     LOCKSTEP_PLUGIN(registry) {
///       registry.add_model("line", "one linear layer",
///                          [](const lockstep::ModelOptions& options) {
///                            return std::shared_ptr<lockstep::Model>(new Line(options));
///                          });
///     }
///
/// In a shared library: `lockstep train --load libline.so --model line`. In a program that calls
/// lockstep::main(argc, argv), they are available without --load; link their file directly or
/// through an OBJECT library, since the linker drops it from a static library.
#define LOCKSTEP_PLUGIN(registry)                                                            \
  extern "C" [[gnu::weak, gnu::visibility("default")]] const char* lockstep_plugin_build() { \
    return LOCKSTEP_BUILD;                                                                   \
  }                                                                                          \
  static void lockstep_plugin_here(::lockstep::Registry& registry);                          \
  [[maybe_unused]] static const bool lockstep_plugin_added =                                 \
      ::lockstep::add_plugin(&lockstep_plugin_here);                                         \
  static void lockstep_plugin_here(::lockstep::Registry& registry)
