// The graph behind a parameter: what device i computes sends the parameter's gradient to *branch*
// i, which copies it to the first device; the *sum* adds what all branches send, in the order of
// devices, and hands it to LibTorch's accumulator of the model's own parameter:
//
//     device 0's operators -> branch 0 \.
//                                       sum -> accumulator -> parameter.grad()
//     device 1's operators -> branch 1 /
//
// Branches take the place of the accumulators of leaves, so that they can be kept: they hold no
// values, and any number of forward and backward passes may share them. In a backward pass a branch
// waits for all operators of its device that use the parameter, which run in one thread, and the
// sum waits for all branches: the order of additions, and so the bits, do not depend on timing.
//
// The model's own parameters have branch 0 only while DataParallel computes its forward pass.
#include "parallel/gradient_sum.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "parallel/device_streams.h"

namespace lockstep::parallel {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;
using torch::autograd::impl::grad_accumulator;

void wait_for(const std::vector<c10::Device>& devices) {
  for (const c10::Device device : devices)
    if (!device.is_cpu()) synchronize(current_stream(device));
}

void ReductionCount::reset() {
  bytes_ = 0;
  nanoseconds_ = 0;
}

template <typename Action>
auto ReductionCount::timed(const std::vector<c10::Device>& devices, const Action& action) {
  const bool waits = times_ == DataParallelOptions::Times::of_devices;
  if (waits) wait_for(devices);
  const Stopwatch watch;
  auto result = action();
  if (waits) wait_for(devices);
  nanoseconds_ += static_cast<int64_t>(1e9 * watch.seconds());
  return result;
}

namespace {

// After all operators that are ready: a copy between devices makes both streams wait for each
// other, so that copies amid the backward passes would make the devices compute in turns.
constexpr uint64_t kLast = 0;

class BranchNode : public Node {
 public:
  BranchNode(const at::Tensor& parameter, c10::Device target, Edge sum,
             std::shared_ptr<ReductionCount> count)
      : Node(kLast, {std::move(sum)}), target_(target), count_(std::move(count)) {
    add_input_metadata(parameter);
  }

  variable_list apply(variable_list&& gradients) override {
    const at::Tensor& gradient = gradients.front();
    if (!gradient.defined() || gradient.device() == target_) return std::move(gradients);
    if (gradient.layout() == at::kStrided)
      count_->add_bytes(static_cast<int64_t>(gradient.nbytes()));
    return {count_->timed({gradient.device(), target_},
                          [&] { return gradient.to(target_, /*non_blocking=*/true); })};
  }

 private:
  const c10::Device target_;
  const std::shared_ptr<ReductionCount> count_;
};

class SumNode : public Node {
 public:
  SumNode(const at::Tensor& parameter, size_t devices, Edge accumulator,
          std::shared_ptr<ReductionCount> count)
      : Node(kLast, {std::move(accumulator)}),
        device_(parameter.device()),
        count_(std::move(count)) {
    for (size_t i = 0; i < devices; ++i) add_input_metadata(parameter);
  }

  variable_list apply(variable_list&& gradients) override {
    return {count_->timed({device_}, [&] { return sum(gradients); })};
  }

 private:
  // Into the memory of what a branch has copied, which nobody else has.
  static at::Tensor sum(const variable_list& gradients) {
    const bool differentiable = at::GradMode::is_enabled();
    at::Tensor total = gradients.front();
    for (size_t device = 1; device < gradients.size(); ++device) {
      const at::Tensor& gradient = gradients[device];
      if (!gradient.defined()) continue;
      if (!total.defined())
        total = gradient;
      else
        total = differentiable ? total + gradient : gradient.add_(total);
    }
    return total;
  }

  const c10::Device device_;
  const std::shared_ptr<ReductionCount> count_;
};

}  // namespace

GradientSums::GradientSums(const std::vector<Tensors>& parameters,
                           std::shared_ptr<ReductionCount> count)
    : count_(std::move(count)) {
  const Tensors& originals = parameters.front();
  for (size_t i = 0; i < originals.size(); ++i) {
    auto same = std::ranges::find_if(parameters_, [&](const Parameter& parameter) {
      return parameter.original.is_same(originals[i]);
    });
    if (same == parameters_.end())
      same = parameters_.insert(same, {originals[i], std::vector<Tensors>(parameters.size())});
    for (size_t device = 1; device < parameters.size(); ++device)
      same->copies[device].push_back(parameters[device][i]);
  }
}

void GradientSums::make_branches(Parameter& parameter) const {
  const at::Tensor& original = parameter.original;
  // One for gradients of other sizes refuses these.
  if (parameter.accumulator && original.sizes() != at::IntArrayRef(parameter.sizes))
    set_accumulator(original, {});
  parameter.sizes = original.sizes().vec();
  parameter.accumulator = grad_accumulator(original);
  const NodePointer sum =
      make_node<SumNode>(original, parameter.copies.size(), Edge(parameter.accumulator, 0), count_);
  parameter.branches.clear();
  for (size_t device = 0; device < parameter.copies.size(); ++device) {
    const at::Tensor& own = device == 0 ? original : parameter.copies[device].front();
    parameter.branches.push_back(make_node<BranchNode>(
        own, original.device(), Edge(sum, static_cast<uint32_t>(device)), count_));
  }
}

void GradientSums::connect() {
  for (Parameter& parameter : parameters_) {
    if (!parameter.original.requires_grad()) continue;
    if (parameter.original.sizes() != at::IntArrayRef(parameter.sizes) ||
        grad_accumulator(parameter.original) != parameter.accumulator)
      make_branches(parameter);
    for (size_t device = 1; device < parameter.copies.size(); ++device)
      for (const at::Tensor& copy : parameter.copies[device])
        set_accumulator(copy, parameter.branches[device]);
  }
}

GradientSums::OnFirstDevice::OnFirstDevice(const GradientSums& sums) : sums_(sums) {
  for (const Parameter& parameter : sums_.parameters_)
    if (parameter.original.requires_grad())
      set_accumulator(parameter.original, parameter.branches.front());
}

// Of all, since the forward pass may have frozen some.
GradientSums::OnFirstDevice::~OnFirstDevice() {
  for (const Parameter& parameter : sums_.parameters_)
    if (parameter.accumulator) set_accumulator(parameter.original, parameter.accumulator);
}

}  // namespace lockstep::parallel
