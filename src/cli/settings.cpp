#include "cli/settings.h"

#include "lockstep/error.h"

namespace lockstep::cli {

void apply_setting(Recipe& recipe, const std::string& as_typed, std::string_view key,
                   std::string_view value) {
  try {
    set(recipe, key, value);
  } catch (const BadInput& error) {
    throw BadInput("{}: {}", as_typed, error.what());
  }
}

void apply_settings(Recipe& recipe, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos)
      throw BadInput("--set {}: expected KEY=VALUE, such as optimizer.lr=0.1", setting);
    apply_setting(recipe, "--set " + setting, setting.substr(0, equals),
                  setting.substr(equals + 1));
  }
}

void add_load_flag(CLI::App& app, std::vector<std::string>& plugins) {
  app.add_option("--load", plugins,
                 "load a plugin: a shared library with your own models, data sets or objectives")
      ->allow_extra_args(false)
      ->type_name("LIBRARY");
}

}  // namespace lockstep::cli
