#pragma once

#include <string>

namespace lockstep::train {

/// What only the libraries behind liblockstep know of themselves and of this machine.
struct LibTorchFacts {
  std::string version;  ///< of LibTorch: "1.13.0"
  /// Its own description: compiler, libraries, build settings such as USE_CUDA=OFF.
  std::string build;
  int cuda_devices = 0;  ///< that LibTorch sees
  int threads = 0;       ///< that an operator uses if nobody says how many
  std::string onednn;    ///< version of the oneDNN that our kernels use
  std::string kernels;   ///< which of our kernels this processor runs: "AVX-512", "AVX2", "none"
};

LibTorchFacts libtorch_facts();

}  // namespace lockstep::train
