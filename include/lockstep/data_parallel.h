#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/device_replicas.h"
#include "lockstep/error.h"

namespace lockstep {

/// Trains one model on several devices of this process: each computes its part of a batch on a
/// replica of the model, and the backward pass adds the gradients of all.
///
///     const std::vector<torch::Device> devices = {lockstep::virtual_device(0),
///                                                 lockstep::virtual_device(1)};
///     torch::nn::Linear model(4, 2);
///     model->to(devices[0]);
///     lockstep::DataParallel parallel(model, devices);
///     torch::optim::SGD optimizer(model->parameters(), 0.1);
///     auto loss = torch::cross_entropy_loss(parallel(x), y.to(devices[0]));
///     optimizer.zero_grad();
///     loss.backward();  // gradients are the sums over all devices
///     optimizer.step();
///
/// The model is on the first device and is what optimizers, checkpoints and `train()` or `eval()`
/// are for; the replicas follow it: every forward pass copies its parameters, buffers and training
/// modes to them. It must be a torch::nn::Cloneable, or DataParallelOptions::make_replica be set.
/// Its forward() takes tensors with samples in dimension 0 (also in a std::vector, std::tuple or
/// lockstep::Tensors), tensors without dimensions, and numbers, which all devices get as they are;
/// it returns tensors with samples in dimension 0, or one of these containers of them. Inputs are
/// on the host or on the first device, results on the first device. Where samples do not divide
/// evenly, the first devices get one more; fewer samples than devices use fewer devices. An input
/// in pinned memory must not be changed until the devices have taken it.
///
/// **Which results are equal.** The gradient of a parameter is ((g0 + g1) + g2) + ..., where gi is
/// what device i computes for its part: these bits do not depend on timing. They are those of one
/// device that computes the parts one by one and adds in this order; of one device with the whole
/// batch they differ in rounding. Layers that look across the batch differ more: BatchNorm
/// normalises each part by itself, and the model's running statistics are those of the first part.
/// Other changes of buffers in a replica are lost, too. Random numbers are drawn by one device
/// after the other.
///
/// Forward passes before a backward pass may be several; parameters may be frozen, unfrozen, loaded
/// and unused. Members of the model that are neither tensors nor modules are copied once, when this
/// is made. One thread asks all devices, in their order: devices that compute asynchronously work
/// at the same time. DistributedDataParallel copies less at each step (docs/devices.md).
template <typename Net>
class DataParallel {
 public:
  /// Throws BadInput unless the devices exist, are of one kind and different, the model is on the
  /// first of them and can be copied; OutOfMemory if a replica does not fit.
  DataParallel(std::shared_ptr<Net> model, std::vector<torch::Device> devices,
               const DataParallelOptions& options = {})
      : replicas_(std::move(model), std::move(devices), options) {
    for (const auto& module : replicas_.modules()) {
      nets_.push_back(std::dynamic_pointer_cast<Net>(module));
      if (!nets_.back()) replicas_.refuse_type_of(*module);
    }
  }
  /// The same, for a module holder (TORCH_MODULE).
  DataParallel(const torch::nn::ModuleHolder<Net>& model, std::vector<torch::Device> devices,
               const DataParallelOptions& options = {})
      : DataParallel(model.is_empty() ? nullptr : model.ptr(), std::move(devices), options) {}

  /// The forward pass of all devices. Throws BadInput for inputs and results other than described
  /// above. What the model throws on a device is thrown here with the device's name: of the same
  /// type if it is LibTorch's, BadInput or OutOfMemory, else as an Error with the original nested.
  /// This object may be used again then.
  template <typename... Inputs>
  auto forward(const Inputs&... inputs) {
    using Result = std::decay_t<decltype(std::declval<Net&>().forward(inputs...))>;
    static_assert(parallel::kOnlyTensors<Result>, "forward() must return tensors");
    const std::tuple<std::decay_t<Inputs>...> arguments(inputs...);
    std::optional<Result> first;
    const auto compute = [&](size_t device, const std::vector<torch::Tensor>& part) {
      auto own = parallel::with_tensors(arguments, part);
      Result result =
          std::apply([&](auto&... each) { return nets_[device]->forward(each...); }, own);
      std::vector<torch::Tensor> tensors = parallel::tensors_of(result);
      if (device == 0) first = std::move(result);
      return tensors;
    };
    const auto gathered = replicas_.forward(parallel::tensors_of(arguments), compute);
    return parallel::with_tensors(*first, gathered);
  }
  /// The same.
  template <typename... Inputs>
  auto operator()(const Inputs&... inputs) {
    return forward(inputs...);
  }

  /// What the last forward pass, and the backward passes since, have copied, and their times.
  DataParallelPass last() const { return replicas_.last(); }

  /// The model, as in parallel->parameters().
  Net* operator->() { return nets_.front().get(); }

 private:
  DeviceReplicas replicas_;
  std::vector<std::shared_ptr<Net>> nets_;  ///< by device; the first is the model
};

}  // namespace lockstep
