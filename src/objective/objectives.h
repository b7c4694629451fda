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

/// What `objective.name` may be.
Table<ObjectiveRow>& objectives();

/// Throws BadInput for an unknown name, an option it does not know, or a data set it cannot serve.
std::unique_ptr<Objective> make_objective(const std::string& name, const ObjectiveOptions& options);

}  // namespace lockstep::objective
