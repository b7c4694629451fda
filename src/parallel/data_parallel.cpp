// A forward pass has four phases: *replicate* copies the model to its replicas, *scatter* gives
// each device a part of the batch, *forward* computes the parts, and *gather* puts their results
// together on the first device. gradient_sum.cpp describes what the backward pass does.
//
// One thread asks the devices for their parts, in their order: the model's random numbers, also
// those that it draws on the host, are the same in every run.
#include "lockstep/data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/range.h"
#include "parallel/arrival.h"
#include "parallel/data_parallel_checks.h"
#include "parallel/gradient_sum.h"
#include "parallel/mirrored_model.h"
#include "parallel/tensor_buffer.h"

namespace lockstep {
namespace {

using Part = std::vector<torch::Tensor>;
using parallel::GradientSums;
using parallel::MirroredModel;

std::shared_ptr<torch::nn::Module> existing(std::shared_ptr<torch::nn::Module> model) {
  if (!model) throw BadInput("DataParallel got no model: a null pointer or an empty holder");
  return model;
}

Part tensors_of_model(const torch::nn::Module& model) {
  Part tensors = model.parameters();
  for (torch::Tensor& buffer : model.buffers()) tensors.push_back(std::move(buffer));
  return tensors;
}

int64_t bytes_of(const torch::Tensor& tensor) {
  return static_cast<int64_t>(tensor.nbytes());
}

bool records_gradients() {
  return at::GradMode::is_enabled() && !c10::InferenceMode::is_enabled();
}

}  // namespace

class DeviceReplicas::State {
 public:
  State(std::shared_ptr<torch::nn::Module> model, std::vector<torch::Device> devices,
        const DataParallelOptions& options)
      : devices_(parallel::checked_devices(std::move(devices))),
        times_(options.times),
        modules_{existing(std::move(model))},
        tensors_(tensors_of_model(*modules_.front())),
        count_(std::make_shared<parallel::ReductionCount>(options.times)) {
    parallel::require_on_first_device(*modules_.front(), devices_.front());
    std::vector<Part> parameters = {modules_.front()->parameters()};
    for (size_t i = 1; i < devices_.size(); ++i) {
      replicas_.emplace_back(modules_.front(), devices_[i], options.make_replica);
      modules_.push_back(replicas_.back().module());
      parameters.push_back(replicas_.back().parameters());
    }
    sums_ = std::make_unique<GradientSums>(parameters, count_);
  }

  const auto& modules() const { return modules_; }
  Part forward(const Part& inputs, const Compute& compute);

  DataParallelPass last() const {
    DataParallelPass pass = last_;
    pass.bytes_reduced = count_->bytes();
    pass.reduce_seconds = count_->seconds();
    return pass;
  }

 private:
  size_t used() const { return static_cast<size_t>(last_.devices); }
  Range samples_on(size_t device) const {
    return slice(last_.samples, last_.devices, static_cast<int64_t>(device));
  }

  void require_same_model() const;
  void replicate();
  Part scatter(const Part& inputs, size_t device);
  Part computed(size_t device, const Part& part, const Compute& compute) const;
  Part gather(std::vector<Part> results);
  double end_phase();

  // Constant after construction.
  const std::vector<torch::Device> devices_;
  const DataParallelOptions::Times times_;
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;  ///< by device
  const Part tensors_;                                       ///< the model's
  const std::shared_ptr<parallel::ReductionCount> count_;

  std::vector<MirroredModel> replicas_;  ///< of all devices but the first
  std::unique_ptr<GradientSums> sums_;
  DataParallelPass last_;
  Stopwatch phase_;
};

Part DeviceReplicas::State::forward(const Part& inputs, const Compute& compute) {
  const int64_t samples = parallel::samples_of(inputs, devices_.front());
  const auto most = static_cast<int64_t>(devices_.size());
  count_->reset();
  last_ = {.samples = samples, .devices = static_cast<int>(std::clamp<int64_t>(samples, 1, most))};
  end_phase();
  require_same_model();
  replicate();
  last_.replicate_seconds = end_phase();
  std::vector<Part> parts;
  for (size_t device = 0; device < used(); ++device) parts.push_back(scatter(inputs, device));
  last_.scatter_seconds = end_phase();
  std::vector<Part> results;
  for (size_t device = 0; device < used(); ++device)
    results.push_back(computed(device, parts[device], compute));
  last_.forward_seconds = end_phase();
  Part gathered = gather(std::move(results));
  last_.gather_seconds = end_phase();
  return gathered;
}

void DeviceReplicas::State::require_same_model() const {
  if (devices_.size() == 1) return;
  const auto is_elsewhere = [&](const torch::Tensor& tensor) {
    return tensor.device() != devices_.front();
  };
  if (std::ranges::any_of(tensors_, is_elsewhere))
    parallel::require_on_first_device(*modules_.front(), devices_.front());
  const Part now = tensors_of_model(*modules_.front());
  const auto is_same = [](const torch::Tensor& a, const torch::Tensor& b) { return a.is_same(b); };
  if (!std::ranges::equal(now, tensors_, is_same))
    throw BadInput(
        "the model has {} parameters and buffers, and had {} when DataParallel was made: some were "
        "registered, removed or replaced since; make a new DataParallel",
        now.size(), tensors_.size());
}

void DeviceReplicas::State::replicate() {
  for (size_t device = 1; device < used(); ++device)
    last_.bytes_replicated += replicas_[device - 1].refresh();
  if (used() > 1 && records_gradients()) sums_->connect();
}

Part DeviceReplicas::State::scatter(const Part& inputs, size_t device) {
  const Range range = samples_on(device);
  Part part;
  for (const torch::Tensor& input : inputs) {
    if (!input.defined()) {
      part.push_back(input);
      continue;
    }
    const bool whole = input.dim() == 0 || range.size() == input.size(0);
    const torch::Tensor own = whole ? input : input.slice(0, range.begin, range.end);
    if (own.device() != devices_[device]) last_.bytes_scattered += bytes_of(own);
    part.push_back(own.to(devices_[device], /*non_blocking=*/true));
  }
  return part;
}

Part DeviceReplicas::State::computed(size_t device, const Part& part,
                                     const Compute& compute) const {
  const c10::OptionalDeviceGuard guard(devices_[device].is_cpu()
                                           ? torch::nullopt
                                           : torch::optional<torch::Device>(devices_[device]));
  std::optional<GradientSums::OnFirstDevice> connected;
  if (device == 0 && used() > 1 && records_gradients()) connected.emplace(*sums_);
  Part results;
  try {
    results = compute(device, part);
  } catch (...) {
    parallel::rethrow_with(devices_[device], samples_on(device));
  }
  parallel::require_samples(results, samples_on(device).size(), devices_[device]);
  if (used() > 1 && records_gradients()) parallel::arrive_together(results);
  return results;
}

Part DeviceReplicas::State::gather(std::vector<Part> results) {
  Part gathered = results.front();
  for (size_t i = 0; i < gathered.size(); ++i) {
    Part parts;
    for (Part& result : results) {
      if (result.size() != gathered.size() || result[i].defined() != gathered[i].defined())
        throw BadInput("forward() returned other tensors on {} than on another device: {} and {}",
                       parallel::device_name(devices_.front()), gathered.size(), result.size());
      if (!result[i].defined()) continue;
      if (result[i].device() != devices_.front()) last_.bytes_gathered += bytes_of(result[i]);
      parts.push_back(result[i].to(devices_.front(), /*non_blocking=*/true));
    }
    if (!parts.empty()) gathered[i] = parts.size() == 1 ? parts.front() : torch::cat(parts);
  }
  return gathered;
}

double DeviceReplicas::State::end_phase() {
  if (times_ == DataParallelOptions::Times::of_devices) parallel::wait_for(devices_);
  return phase_.restart();
}

DeviceReplicas::DeviceReplicas(std::shared_ptr<torch::nn::Module> model,
                               std::vector<torch::Device> devices,
                               const DataParallelOptions& options)
    : state_(std::make_unique<State>(std::move(model), std::move(devices), options)) {}

DeviceReplicas::~DeviceReplicas() = default;

const std::vector<std::shared_ptr<torch::nn::Module>>& DeviceReplicas::modules() const {
  return state_->modules();
}

Part DeviceReplicas::forward(const Part& inputs, const Compute& compute) {
  return state_->forward(inputs, compute);
}

DataParallelPass DeviceReplicas::last() const {
  return state_->last();
}

void DeviceReplicas::refuse_type_of(const torch::nn::Module& replica) const {
  const std::string model = state_->modules().front()->name();
  throw BadInput(
      "DataParallel's replica of {0} is of class {1}; derive {0} from torch::nn::Cloneable<{0}>, "
      "or set DataParallelOptions::make_replica",
      model, replica.name());
}

}  // namespace lockstep
