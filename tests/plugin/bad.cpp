// A plugin that cannot be registered, for the reason in the environment.
#include <lockstep/plugin.h>

#include <cstdlib>
#include <stdexcept>
#include <string_view>

LOCKSTEP_PLUGIN(registry) {
  if (std::getenv("BAD_PLUGIN") == std::string_view("throws"))
    throw std::runtime_error("no licence for this plugin");
  registry.add_model("mlp", "another one", [](const lockstep::ModelOptions&) {
    return std::shared_ptr<lockstep::Model>();
  });
}
