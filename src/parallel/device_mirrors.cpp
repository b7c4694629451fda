#include "parallel/device_mirrors.h"

#include <torch/types.h>

#include <utility>

#include "parallel/gradient_sum.h"

namespace lockstep::parallel {
namespace {

int64_t bytes_of(const Tensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

Tensors copied(const Tensors& tensors, c10::Device device) {
  std::vector<Tensors::Item> there;
  for (const auto& [name, tensor] : tensors)
    there.emplace_back(name, tensor.to(device, /*non_blocking=*/true));
  return Tensors(std::move(there));
}

}  // namespace

DeviceMirrors::DeviceMirrors(std::vector<c10::Device> devices, std::vector<Mirror> mirrors)
    : devices_(std::move(devices)), mirrors_(std::move(mirrors)) {
  for (const Mirror& mirror : mirrors_)
    trained_.push_back(trained_parameters(mirror.part.module()));
}

void DeviceMirrors::replicate(int micro_batch) {
  MirroredModel& model = mirrors_[mirror_of(micro_batch)].model;
  const bool is_first_group = static_cast<size_t>(micro_batch) < devices_.size();
  traffic_.replicated += is_first_group ? model.replace() : model.replace_buffers();
}

Batch DeviceMirrors::scattered(const Batch& samples, int micro_batch) {
  if (!has(micro_batch)) return samples;
  traffic_.scattered += bytes_of(samples.inputs) + bytes_of(samples.targets);
  Batch there = samples;
  there.inputs = copied(samples.inputs, device_of(micro_batch));
  there.targets = copied(samples.targets, device_of(micro_batch));
  return there;
}

void DeviceMirrors::give_buffers(int micro_batch) {
  traffic_.gathered += mirrors_[mirror_of(micro_batch)].model.give_back_buffers();
}

std::vector<torch::Tensor> DeviceMirrors::take_gradients(int micro_batch) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> own;
  for (torch::Tensor& parameter : trained_[mirror_of(micro_batch)].tensors)
    own.push_back(std::exchange(parameter.mutable_grad(), {}));
  std::vector<torch::Tensor> there = copied_together(own, devices_.front());
  for (const torch::Tensor& gradient : there)
    if (gradient.defined()) traffic_.reduced += static_cast<int64_t>(gradient.nbytes());
  return there;
}

void DeviceMirrors::forget_gradients() {
  for (Parameters& parameters : trained_)
    for (torch::Tensor& parameter : parameters.tensors) parameter.mutable_grad().reset();
}

void DeviceMirrors::wait() const {
  wait_for(devices_);
}

}  // namespace lockstep::parallel
