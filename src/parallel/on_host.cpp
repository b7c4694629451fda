#include "parallel/on_host.h"

#include <ATen/ATen.h>

#include "lockstep/virtual_device.h"

namespace lockstep::parallel {

void on_host(const std::vector<at::Tensor>& tensors,
             const std::function<void(const std::vector<at::Tensor>&)>& kernel) {
  const c10::Device device = tensors.front().device();
  if (device.is_cpu()) return kernel(tensors);
  if (device.type() == c10::DeviceType::PrivateUse1) return launch_kernel(tensors, kernel);
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.cpu());
  kernel(copies);
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(copies[i]);
}

}  // namespace lockstep::parallel
