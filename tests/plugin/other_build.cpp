// As a plugin that was built for another version.
extern "C" const char* lockstep_plugin_build() {
  return "Lockstep 0.0.1, LibTorch 0.4.0";
}
