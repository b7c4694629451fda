// Plugins that cannot be loaded: which one, the build says.
#include <lockstep/plugin.h>

#include <stdexcept>

#if defined(OTHER_BUILD)
#undef LOCKSTEP_BUILD
#define LOCKSTEP_BUILD "Lockstep 0.0.1, LibTorch 0.4.0"
#endif

#if defined(NOT_A_PLUGIN)
int nothing_of_lockstep() {
  return 0;
}
#else
LOCKSTEP_PLUGIN(registry) {
#if defined(THROWS)
  throw std::runtime_error("no licence for this plugin");
#elif defined(TAKES_A_NAME)
  registry.add_model("mlp", "another one", [](const lockstep::ModelOptions&) {
    return std::shared_ptr<lockstep::Model>();
  });
#endif
}
#endif
