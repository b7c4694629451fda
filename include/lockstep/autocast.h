#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

namespace lockstep {

/// While it exists, this thread's operators on devices of one type compute in half precision where
/// that is safe (convolutions and products of matrices), and in float32 where it is not (losses,
/// exponentials, norms), as by PyTorch's `torch.autocast`. Parameters stay float32; each is
/// converted once, so do not change parameters or the grad mode while it exists. Call `backward()`
/// after its end.
///
///     torch::Tensor loss;
///     {
///       const lockstep::Autocast autocast(device.type(), torch::kHalf);
///       loss = torch::cross_entropy_loss(model(x), y);
///     }
///     loss.backward();
class Autocast {
 public:
  /// `type` is float16 or bfloat16; float32 switches an outer autocast off. Throws BadInput for
  /// other types, and for devices without autocast in this LibTorch.
  Autocast(c10::DeviceType device, c10::ScalarType type);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const c10::DeviceType device_;
  const bool outer_enabled_;
  const c10::ScalarType outer_type_;
};

}  // namespace lockstep
