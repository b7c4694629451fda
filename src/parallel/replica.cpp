#include "parallel/replica.h"

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <utility>

#include "lockstep/error.h"
#include "parallel/memory_groups.h"
#include "parallel/same_model.h"

namespace lockstep::parallel {

using collective::Cargo;

namespace {

// Tensors are moved, so that views of each other would become independent.
void require_own_memory(const torch::nn::Module& model) {
  std::vector<StateTensor> all = parameters_of(model);
  for (StateTensor& buffer : buffers_of(model)) all.push_back(std::move(buffer));
  std::vector<torch::Tensor> tensors;
  for (const StateTensor& state : all) tensors.push_back(state.tensor);
  const MemoryGroups memory(tensors);
  std::map<size_t, const StateTensor*> owners;
  for (const StateTensor& state : all) {
    const StateTensor& first = *owners.try_emplace(memory.of(state.tensor), &state).first->second;
    if (!first.tensor.is_same(state.tensor))
      throw BadInput("{} and {} share memory; register one of them, or a .clone()", first.name,
                     state.name);
  }
}

}  // namespace

Replica::Replica(torch::nn::Module& model, World world, const ReplicaOptions& options,
                 OnGradient on_gradient)
    : model_(model),
      world_(std::move(world)),
      group_(world_.communicator()),
      options_(options),
      pieces_(options_.shards.cut(options_.pieces)),
      parameters_((require_same_model(model, group_), trained_parameters(model))),
      watch_(model),
      buffers_(buffers_of(model), group_),
      hooks_(parameters_, std::move(on_gradient)) {
  if (parameters_.size() == 0) throw BadInput("the model has no trained parameters");
  const bool moves_parameters = options_.parameters != ReplicaOptions::ParameterMemory::as_it_is;
  if (moves_parameters || options_.buffers == ReplicaOptions::BufferMode::mean_over_shards)
    require_own_memory(model);
  take_hook();
  // First, since parameters are there twice until they are placed.
  const std::vector<size_t> ready = last_first(parameters_.size());
  if (moves_parameters)
    place_parameters(lay_out(gradient_sizes(parameters_), ready, options_.buckets));
  make_reducer(ready);
  if (options_.buffers == ReplicaOptions::BufferMode::mean_over_shards) {
    const MemoryScope scope(MemoryUse::parameters);
    statistics_.emplace(model_, pieces_, group_);
  }
}

void Replica::place_parameters(const GradientLayout& with) {
  const int64_t bytes = with.bytes;
  const c10::Device device = parameters_.tensors[0].device();
  const MemoryScope scope(MemoryUse::parameters);
  if (options_.parameters == ReplicaOptions::ParameterMemory::exchanged)
    parameter_memory_.emplace(device, MemoryUse::parameters, bytes, 1, group_);
  flat_parameters_.emplace(
      parameters_, with,
      parameter_memory_ ? parameter_memory_->vector({.end = bytes}, torch::kFloat32)
                        : torch::zeros({bytes / static_cast<int64_t>(sizeof(float))}, device));
}

// A hook keeps state per parameter, so that two replicas cannot share one.
void Replica::take_hook() {
  if (!options_.hook) return;
  if (options_.compress != Compress::none)
    throw BadInput("a gradient hook and compression to another type are both set; choose one");
  if (options_.hook->taken_)
    throw BadInput(
        "the gradient hook is already used by another DistributedDataParallel; make one hook for "
        "each");
  options_.hook->taken_ = true;
  hook_world_.emplace(world_.duplicate());
}

std::vector<World> Replica::worlds() const {
  std::vector<World> all = {world_};
  if (hook_world_) all.push_back(*hook_world_);
  return all;
}

void Replica::make_reducer(const std::vector<size_t>& ready) {
  const MemoryScope scope(MemoryUse::gradients);
  auto made = std::make_unique<Reducer>(parameters_,
                                        ReducerOptions{.ready = ready,
                                                       .buckets = options_.buckets,
                                                       .compress = options_.compress,
                                                       .needed = options_.needed,
                                                       .pieces = options_.pieces},
                                        options_.shards, group_);
  if (options_.hook) made->use_hook(options_.hook, *hook_world_);
  reducer_ = std::move(made);
}

void Replica::order_buckets(const std::vector<size_t>& ready) {
  const std::unique_ptr<Reducer> before = std::move(reducer_);
  make_reducer(ready);
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& gradient = parameters_.tensors[i].mutable_grad();
    if (!gradient.defined() || gradient.is_sparse()) continue;
    torch::Tensor view = reducer_->gradient(i);
    view.copy_(gradient);
    gradient = view;
  }
}

void Replica::notice_loaded_weights() {
  hooks_.renew();
  if (flat_parameters_) flat_parameters_->collect();
}

void Replica::begin_forward(int pass, ShardStatistics::Shard shard) {
  close_forward();
  under_way_ = true;
  if (!statistics_) return;
  watch_.begin_pass();
  statistics_->begin_pass(pass);
  forward_ = {pass, shard};
}

void Replica::close_forward() {
  if (!forward_) return;
  watch_.end_pass();
  statistics_->end_pass(forward_->pass, forward_->shard);
  forward_.reset();
}

void Replica::begin_backward(int pass) {
  backward_ = pass;
  under_way_ = true;
  reducer_->begin_pass(pass);
  in_backward_ = true;
}

void Replica::take(size_t parameter, Gradient then) {
  if (!in_backward_)
    throw BadInput(
        "parameter '{}' got a gradient in the backward pass of layers that do not list it: name "
        "it, "
        "or its module, in the `uses` of every layer that uses it",
        parameters_.names[parameter]);
  reducer_->add(parameter);
  torch::Tensor& gradient = parameters_.tensors[parameter].mutable_grad();
  if (then == Gradient::dropped)
    gradient.reset();
  else if (gradient.data_ptr() != reducer_->gradient(parameter).data_ptr())
    gradient = reducer_->gradient(parameter);
}

std::vector<size_t> Replica::end_backward(Reducer::Unreached unreached) {
  std::vector<size_t> missing = reducer_->end_pass(unreached);
  in_backward_ = false;
  if (forward_ && forward_->pass == backward_) close_forward();
  return missing;
}

void Replica::finish(int64_t pieces_with_samples) {
  if (statistics_) statistics_->start();
  reducer_->finish();
  if (statistics_) statistics_->finish(pieces_with_samples);
  stragglers_.add(reducer_->seconds_waited());
  under_way_ = false;
}

void Replica::roll_back() {
  if (under_way_ && statistics_) statistics_->roll_back();
  forward_.reset();
  under_way_ = in_backward_ = false;
}

double joint_norm(const std::vector<double>& norms) {
  double squares = 0;
  for (const double norm : norms) squares += std::pow(norm, 2);
  return std::sqrt(squares);
}

std::vector<double> Replica::gradient_norms() const {
  torch::NoGradGuard no_grad;
  std::vector<double> norms;
  for (size_t i = 0; i < parameters_.size(); ++i)
    norms.push_back(
        at::linalg_vector_norm(current_gradient(i), 2, {}, false, torch::kDouble).item<double>());
  return norms;
}

double Replica::clip_gradient_norm(double largest) {
  const double norm = joint_norm(gradient_norms());
  if (norm > largest) scale_gradients(largest / norm);
  return norm;
}

void Replica::scale_gradients(double factor) {
  torch::NoGradGuard no_grad;
  if (options_.needed == NeededGradients::own_slice) {
    const torch::Tensor all = flat_gradients();
    for (const Range& own : slices_of_rank(layout(), group_.world_size(), group_.rank()))
      all.slice(0, own.begin, own.end).mul_(factor);
    return;
  }
  for (size_t i = 0; i < parameters_.size(); ++i) current_gradient(i).mul_(factor);
}

// The user may have replaced the view by another tensor.
torch::Tensor Replica::current_gradient(size_t parameter) const {
  const torch::Tensor& own = parameters_.tensors[parameter].grad();
  return own.defined() ? own : gradient(parameter);
}

void Replica::share_model(int root) {
  std::vector<StateTensor> all = parameters_of(model_);
  for (StateTensor& buffer : buffers_of(model_)) all.push_back(std::move(buffer));
  FlatState(std::move(all), group_).broadcast(root);
}

void Replica::share_buffers(int root) {
  if (group_.world_size() > 1) buffers_.broadcast(root, {Cargo::Kind::buffers});
}

}  // namespace lockstep::parallel
