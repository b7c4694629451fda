#include "lockstep/sharded_optimizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <tuple>

#include "base/agreement.h"
#include "parallel/memory_groups.h"
#include "parallel/same_model.h"
#include "parallel/sharded_update.h"
#include "parallel/tensor_buffer.h"

namespace lockstep {

using parallel::GroupedParameter;
using torch::Tensor;
using torch::optim::OptimizerParamGroup;
using Groups = ShardedUpdate::Groups;

namespace {

using Parameters = std::vector<GroupedParameter>;

Parameters parameters_in(const Groups& groups) {
  Parameters all;
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t i = 0; i < groups[g].params().size(); ++i) {
      const Tensor& tensor = groups[g].params()[i];
      if (!tensor.defined() || tensor.layout() != torch::kStrided)
        all.push_back({tensor, g, i, {}, {}});
      else
        all.push_back({tensor, g, i, tensor.sizes().vec(), tensor.strides().vec()});
    }
  return all;
}

// Each is updated by itself, perhaps by another worker.
void require_own_memory(const Parameters& parameters) {
  std::vector<Tensor> tensors;
  for (const GroupedParameter& parameter : parameters) tensors.push_back(parameter.tensor);
  const parallel::MemoryGroups memory(tensors);
  std::map<size_t, const GroupedParameter*> owners;
  for (const GroupedParameter& parameter : parameters)
    if (const auto [owner, is_new] = owners.emplace(memory.of(parameter.tensor), &parameter);
        !is_new)
      throw BadInput(
          "ShardedOptimizer: {} and {} share memory, but each is updated by itself; give one of "
          "them, or a .clone()",
          parameter.name(), owner->second->name());
}

const Parameters& checked(const Parameters& parameters) {
  if (parameters.empty())
    throw BadInput(
        "ShardedOptimizer got no parameters: pass those of a model, model->parameters()");
  std::map<const void*, const GroupedParameter*> seen;
  for (const GroupedParameter& parameter : parameters) {
    const Tensor& tensor = parameter.tensor;
    if (!tensor.defined()) throw BadInput("ShardedOptimizer: {} is undefined", parameter.name());
    if (tensor.layout() != torch::kStrided || !tensor.is_non_overlapping_and_dense())
      throw BadInput(
          "ShardedOptimizer: {} ({}) is sparse, or a view with gaps or of shared elements; "
          "expected a dense tensor",
          parameter.name(), parallel::describe(tensor));
    const Tensor& first = parameters.front().tensor;
    if (tensor.device() != first.device())
      throw BadInput("ShardedOptimizer: {} is on {}, but {} on {}; a model must be on one device",
                     parameters.front().name(), parallel::device_name(first.device()),
                     parameter.name(), parallel::device_name(tensor.device()));
    const auto [other, is_new] = seen.emplace(tensor.unsafeGetTensorImpl(), &parameter);
    if (!is_new)
      throw BadInput("ShardedOptimizer: {} is also {}; give each parameter once", parameter.name(),
                     other->second->name());
  }
  require_own_memory(parameters);
  return parameters;
}

// Parameters without gradients have no state, and groups and types may have more of it than others.
std::vector<parallel::DividedParameter> divided(const Parameters& parameters) {
  std::map<std::tuple<size_t, torch::ScalarType, bool>, size_t> kinds;
  std::vector<parallel::DividedParameter> result;
  for (const GroupedParameter& parameter : parameters) {
    const auto key = std::tuple(parameter.group, parameter.tensor.scalar_type(),
                                parameter.tensor.requires_grad());
    result.push_back({parameter.tensor.numel(), kinds.emplace(key, kinds.size()).first->second});
  }
  return result;
}

// The gradient with the strides of its parameter.
Tensor gradient_of(const Tensor& parameter) {
  const Tensor& gradient = parameter.grad();
  if (gradient.strides() == parameter.strides()) return gradient.detach();
  const Tensor ordered =
      torch::empty_strided(parameter.sizes(), parameter.strides(), gradient.options());
  return ordered.copy_(gradient);
}

std::string text_of(const c10::IValue& value) {
  if (value.isDouble()) return fmt::format("{}", value.toDouble());
  std::ostringstream text;
  text << value;
  return text.str();
}

Facts facts_of(const Groups& groups) {
  Facts facts;
  for (const GroupedParameter& parameter : parameters_in(groups))
    facts.emplace_back(parameter.name(), parallel::describe_parameter(parameter.tensor));
  for (size_t g = 0; g < groups.size(); ++g)
    for (const auto& [key, value] : parallel::values_of(groups[g].options()))
      facts.emplace_back(fmt::format("option '{}' of group {}", key, g), text_of(value));
  return facts;
}

}  // namespace

ShardedUpdate::State::State(const Groups& groups, World of_workers, Divide by)
    : world(std::move(of_workers)),
      divide(by),
      parameters(checked(parameters_in(groups))),
      pieces(by == Divide::elements ? divide_elements(divided(parameters), world.size())
                                    : divide_parameters(divided(parameters), world.size())),
      exchange(world.communicator(), pieces),
      fail_stop({world}) {
  std::vector<std::vector<Tensor>> by_group(groups.size());
  for (const parallel::Piece& piece : own_pieces()) {
    const GroupedParameter& parameter = parameters[piece.parameter];
    own_tensors.push_back(by == Divide::parameters
                              ? parameter.tensor
                              : parallel::elements_of(parameter.tensor.detach(), piece.range));
    by_group[parameter.group].push_back(own_tensors.back());
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    own_groups.emplace_back(by_group[g]);
    if (groups[g].has_options()) own_groups.back().set_options(groups[g].options().clone());
  }
}

void ShardedUpdate::State::check_unchanged(const Groups& groups) const {
  const Parameters now = parameters_in(groups);
  const bool same = std::equal(now.begin(), now.end(), parameters.begin(), parameters.end(),
                               [](const GroupedParameter& a, const GroupedParameter& b) {
                                 return a.group == b.group && a.tensor.is_same(b.tensor);
                               });
  if (!same || groups.size() != own_groups.size())
    throw BadInput(
        "ShardedOptimizer: its parameter groups were changed after it was made; give it all groups "
        "when it is made");
  for (const GroupedParameter& made : parameters)
    if (made.tensor.sizes() != made.sizes || made.tensor.strides() != made.strides)
      throw BadInput(
          "ShardedOptimizer: {} had sizes [{}] and strides [{}] when the optimizer was made, and "
          "has "
          "[{}] and [{}] now; its state belongs to the elements it had: make a new optimizer",
          made.name(), fmt::join(made.sizes, ", "), fmt::join(made.strides, ", "),
          fmt::join(made.tensor.sizes(), ", "), fmt::join(made.tensor.strides(), ", "));
}

std::vector<char> ShardedUpdate::State::gradients_here() const {
  std::vector<char> here;
  for (const GroupedParameter& parameter : parameters) {
    const Tensor& gradient = parameter.tensor.grad();
    if (gradient.defined() && gradient.layout() != torch::kStrided)
      throw BadInput("ShardedOptimizer: the gradient of {} is sparse: expected a dense one",
                     parameter.name());
    here.push_back(gradient.defined() ? 1 : 0);
  }
  return here;
}

// A parameter's memory may be another one than in the last step (torch::Tensor::set_data).
void ShardedUpdate::State::place_pieces(const std::vector<char>& has_gradient) {
  for (size_t i = 0; i < own_tensors.size(); ++i) {
    const auto& [parameter, range] = own_pieces()[i];
    const Tensor& whole = parameters[parameter].tensor;
    Tensor& piece = own_tensors[i];
    if (whole.device() != piece.device() || whole.scalar_type() != piece.scalar_type())
      throw BadInput(
          "ShardedOptimizer: {} was {} on {} and is {} on {} now; move the model first, then make "
          "its optimizer",
          parameters[parameter].name(), c10::toString(piece.scalar_type()),
          parallel::device_name(piece.device()), c10::toString(whole.scalar_type()),
          parallel::device_name(whole.device()));
    const int64_t offset = whole.storage_offset() + range.begin;
    if (!piece.is_alias_of(whole) || piece.storage_offset() != offset)
      piece.set_data(parallel::elements_of(whole.detach(), range));
    piece.mutable_grad() =
        has_gradient[parameter] ? parallel::elements_of(gradient_of(whole), range) : Tensor();
  }
}

void ShardedUpdate::State::pass_on_options(const Groups& groups) {
  for (size_t g = 0; g < groups.size(); ++g)
    own->param_groups()[g].set_options(groups[g].options().clone());
}

void ShardedUpdate::State::update(const Groups& groups) {
  check_unchanged(groups);
  const std::vector<char> has_gradient = gradients_here();
  pass_on_options(groups);
  if (divide == Divide::elements) place_pieces(has_gradient);
  own->step();
  if (divide == Divide::elements)
    for (Tensor& piece : own_tensors) piece.mutable_grad() = Tensor();
  std::vector<Tensor> tensors;
  for (const GroupedParameter& parameter : parameters) tensors.push_back(parameter.tensor);
  exchange.run(tensors, has_gradient);
  for (size_t i = 0; i < tensors.size(); ++i)  // so that autograd notices the change
    if (has_gradient[i] && !tensors[i].is_inference())
      tensors[i].unsafeGetTensorImpl()->bump_version();
}

ShardedUpdate::ShardedUpdate(Groups groups, World world, Divide divide)
    : Optimizer(Groups(), nullptr),
      state_of_share_(std::make_unique<State>(groups, std::move(world), divide)) {
  param_groups_ = std::move(groups);
}

ShardedUpdate::~ShardedUpdate() = default;

const Groups& ShardedUpdate::own_groups() const {
  return state_of_share_->own_groups;
}

const torch::optim::Optimizer& ShardedUpdate::own() const {
  return *state_of_share_->own;
}

void ShardedUpdate::take(std::unique_ptr<torch::optim::Optimizer> own) {
  defaults_ = own->defaults().clone();
  Groups groups = std::move(param_groups_);
  param_groups_.clear();
  for (const OptimizerParamGroup& group : groups) add_param_group(group);
  state_of_share_->own = std::move(own);
  agree(facts_of(param_groups_), [this](const std::string& text) {
    return state_of_share_->world.communicator().gather_texts(text);
  });
}

Tensor ShardedUpdate::step(LossClosure closure) {
  Tensor loss;
  if (closure) {
    const torch::AutoGradMode with_gradients(true);
    loss = closure();
  }
  const torch::NoGradGuard no_gradients;
  state_of_share_->fail_stop.run([&] { state_of_share_->update(param_groups_); });
  return loss;
}

}  // namespace lockstep
