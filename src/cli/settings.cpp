#include "cli/settings.h"

#include "lockstep/error.h"

namespace lockstep::cli {

void apply_settings(Recipe& recipe, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos)
      throw BadInput("--set {}: expected KEY=VALUE, such as optimizer.lr=0.1", setting);
    try {
      set(recipe, setting.substr(0, equals), setting.substr(equals + 1));
    } catch (const BadInput& error) {
      throw BadInput("--set {}: {}", setting, error.what());
    }
  }
}

}  // namespace lockstep::cli
