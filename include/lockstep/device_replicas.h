#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/batch.h"

namespace lockstep {

/// Options of DataParallel.
struct DataParallelOptions {
  /// Makes another model of the same structure, for models that are not torch::nn::Cloneable. Its
  /// weights do not matter; it may be on the CPU.
  std::function<std::shared_ptr<torch::nn::Module>()> make_replica = nullptr;
  /// Which times DataParallelPass has: of the host's thread, which returns before asynchronous
  /// devices have computed; or of the devices, for which the host waits after each phase, so that
  /// passes take longer.
  enum class Times { of_host, of_devices };
  /// Which of them.
  Times times = Times::of_host;
};

/// What a forward pass of DataParallel, and the backward passes since, have copied between devices,
/// and how long it took.
struct DataParallelPass {
  int64_t samples = 0;           ///< of the batch
  int devices = 0;               ///< that computed a part of it
  int64_t bytes_replicated = 0;  ///< parameters and buffers, to all replicas
  int64_t bytes_scattered = 0;   ///< inputs
  int64_t bytes_gathered = 0;    ///< results; their gradients go back in the backward pass
  int64_t bytes_reduced = 0;     ///< gradients of parameters, to the first device
  double replicate_seconds = 0;  ///< copying parameters and buffers
  double scatter_seconds = 0;    ///< copying inputs
  double forward_seconds = 0;    ///< computing
  double gather_seconds = 0;     ///< copying results
  double reduce_seconds = 0;     ///< copying and adding gradients, summed over autograd's threads
};

/// The part of DataParallel that does not depend on the model's type. Use DataParallel.
class DeviceReplicas {
 public:
  /// Computes the part of a device, and returns its results.
  using Compute = std::function<std::vector<torch::Tensor>(size_t device,
                                                           const std::vector<torch::Tensor>& part)>;

  /// Checks devices and model, and makes the replicas.
  DeviceReplicas(std::shared_ptr<torch::nn::Module> model, std::vector<torch::Device> devices,
                 const DataParallelOptions& options);
  ~DeviceReplicas();
  DeviceReplicas(const DeviceReplicas&) = delete;
  DeviceReplicas& operator=(const DeviceReplicas&) = delete;

  /// The model on each device; the first is the model itself.
  const std::vector<std::shared_ptr<torch::nn::Module>>& modules() const;
  /// Divides the inputs, computes all parts, and gathers their results.
  std::vector<torch::Tensor> forward(const std::vector<torch::Tensor>& inputs,
                                     const Compute& compute);
  /// See DataParallel.
  DataParallelPass last() const;
  /// Throws BadInput: the replica is of another class than the model.
  [[noreturn]] void refuse_type_of(const torch::nn::Module& replica) const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

namespace parallel {

// Calls `action` with each tensor in the arguments or results of a model.

/// Numbers are none.
template <typename T, typename Action>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
void for_each_tensor(T& /*number*/, const Action& /*action*/) {}
/// One.
template <typename Action>
void for_each_tensor(torch::Tensor& tensor, const Action& action) {
  action(tensor);
}
/// Several.
template <typename Action>
void for_each_tensor(std::vector<torch::Tensor>& tensors, const Action& action) {
  for (torch::Tensor& tensor : tensors) action(tensor);
}
/// Those with names.
template <typename Action>
void for_each_tensor(Tensors& tensors, const Action& action) {
  std::vector<Tensors::Item> items(tensors.begin(), tensors.end());
  for (Tensors::Item& item : items) action(item.second);
  tensors = Tensors(std::move(items));
}
/// Those of a tuple's elements, in their order.
template <typename... Elements, typename Action>
void for_each_tensor(std::tuple<Elements...>& tuple, const Action& action) {
  std::apply([&](auto&... each) { (for_each_tensor(each, action), ...); }, tuple);
}

/// The tensors in arguments or results.
template <typename Value>
std::vector<torch::Tensor> tensors_of(Value value) {
  std::vector<torch::Tensor> tensors;
  for_each_tensor(value, [&](const torch::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

/// The same arguments or results with other tensors.
template <typename Value>
Value with_tensors(Value value, const std::vector<torch::Tensor>& tensors) {
  size_t next = 0;
  for_each_tensor(value, [&](torch::Tensor& tensor) { tensor = tensors[next++]; });
  return value;
}

/// Whether a result is made of tensors only.
template <typename T>
inline constexpr bool kOnlyTensors =
    std::is_same_v<T, torch::Tensor> || std::is_same_v<T, std::vector<torch::Tensor>> ||
    std::is_same_v<T, Tensors>;
/// The same, for a tuple.
template <typename... Elements>
inline constexpr bool kOnlyTensors<std::tuple<Elements...>> = (kOnlyTensors<Elements> && ...);

}  // namespace parallel
}  // namespace lockstep
