#pragma once

#include <memory>
#include <string>

#include "base/table.h"
#include "lockstep/plugin.h"

namespace lockstep::objective {

struct ObjectiveRow {
  std::string name;
  std::string about;
  MakeObjective make;
};

/// The values of `objective.name`.
Table<ObjectiveRow>& objectives();

/// Throws BadInput for an unknown name, an unknown option, or a data set that the objective does
/// not support.
std::unique_ptr<Objective> make_objective(const std::string& name, const ObjectiveOptions& options);

}  // namespace lockstep::objective
