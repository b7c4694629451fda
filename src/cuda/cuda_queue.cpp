// CUDA devices for transports. Compiled only with LibTorch for CUDA: without it the table has no
// such row, and transports say so.
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include "cuda/torch_queue.h"
#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

std::unique_ptr<transport::DeviceQueue> make_cuda_queue(int index) {
  const int count = c10::cuda::device_count();
  if (index < 0 || index >= count)
    throw BadInput(
        "cuda:{}: LibTorch finds {} CUDA devices here; check nvidia-smi and CUDA_VISIBLE_DEVICES",
        index, count);
  constexpr bool kHighPriority = true;
  const auto stream =
      c10::cuda::getStreamFromPool(kHighPriority, static_cast<c10::DeviceIndex>(index));
  return std::make_unique<TorchQueue>(stream.unwrap(), [](const c10::Stream& any) {
    return static_cast<void*>(c10::cuda::CUDAStream(any).stream());
  });
}

const bool cuda_added =
    transport::device_queues().add({"cuda", "NVIDIA's devices, by LibTorch", make_cuda_queue});

}  // namespace
}  // namespace lockstep::cuda
