#include "objective/objectives.h"

#include <fmt/format.h>

namespace lockstep::objective {

Table<ObjectiveRow>& objectives() {
  static Table<ObjectiveRow> table("objective");
  return table;
}

std::unique_ptr<Objective> make_objective(const std::string& name,
                                          const ObjectiveOptions& options) {
  auto made = objectives().at(name).make(options);
  if (!made) throw BadInput("objective '{}': its maker returned nullptr", name);
  options.options.refuse_unknown(fmt::format("objective '{}'", name));
  return made;
}

}  // namespace lockstep::objective
