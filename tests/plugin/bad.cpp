// A plugin that cannot be registered: it throws if a variable is set, else it takes a used name.
#include <lockstep/plugin.h>

#include <cstdlib>
#include <stdexcept>

LOCKSTEP_PLUGIN(registry) {
  if (std::getenv("BAD_PLUGIN") != nullptr) throw std::runtime_error("no licence for this plugin");
  registry.add_model("mlp", "another one", [](const lockstep::ModelOptions&) {
    return std::shared_ptr<lockstep::Model>();
  });
}
