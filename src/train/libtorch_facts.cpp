#include "train/libtorch_facts.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include "kernels/cpu.h"

namespace lockstep::train {

LibTorchFacts libtorch_facts() {
  return {.version = TORCH_VERSION,
          .build = at::show_config(),
          .cuda_devices = static_cast<int>(torch::cuda::device_count()),
          .threads = at::get_num_threads(),
          .onednn = kernels::onednn_version(),
          .kernels = kernels::has_avx512()  ? "AVX-512"
                     : kernels::supported() ? "AVX2"
                                            : "none"};
}

}  // namespace lockstep::train
