#include "parallel/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>
#include <torch/types.h>

#include <string>
#include <utility>

#include "lockstep/error.h"
#include "parallel/generator.h"
#include "parallel/graph_inputs.h"

namespace lockstep::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A layer's call, for the backward pass. The layer belongs to a model, which outlives its graphs.
struct LayerCall : torch::CustomClassHolder {
  const ModelLayer* layer = nullptr;
  std::vector<torch::Tensor> buffers;
  std::vector<std::string> input_names;
  std::vector<bool> input_gradients;  ///< whether they are needed
  std::vector<std::string> output_names;
  variable_list outputs;    ///< without their history, until the graph has them
  variable_list constants;  ///< those of them that have none
  torch::Tensor generator;  ///< its state before the layer
};

constexpr const char* kCall = "call";

Tensors named(const std::vector<std::string>& names, const variable_list& tensors) {
  std::vector<Tensors::Item> items;
  for (size_t i = 0; i < names.size(); ++i) items.emplace_back(names[i], tensors[i]);
  return Tensors(std::move(items));
}

struct Recompute : torch::autograd::Function<Recompute> {
  // `always` requires a gradient, so that the outputs do: parameters are not among the inputs.
  static variable_list forward(AutogradContext* context, const c10::intrusive_ptr<LayerCall>& call,
                               at::TensorList inputs, const torch::Tensor& /*always*/) {
    context->save_for_backward(inputs.vec());
    context->mark_non_differentiable(std::exchange(call->constants, {}));
    context->saved_data[kCall] = c10::IValue::make_capsule(call);
    return std::exchange(call->outputs, {});
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto call =
        c10::static_intrusive_pointer_cast<LayerCall>(context->saved_data[kCall].toCapsule());
    variable_list saved;
    for (const torch::Tensor& input : context->get_saved_variables())
      saved.push_back(input.detach().set_requires_grad(call->input_gradients[saved.size()]));
    const GraphInputs inputs(named(call->input_names, saved));
    compute_again(*call, inputs.tensors(), gradients);
    variable_list results = {torch::Tensor()};  // for `call`
    for (size_t i = 0; i < saved.size(); ++i) results.push_back(inputs.gradient(i));
    results.emplace_back();  // for `always`
    return results;
  }

  // Buffers are restored where autograd does not notice: graphs of other batches may refer to them.
  static void compute_again(const LayerCall& call, const Tensors& inputs,
                            const variable_list& gradients) {
    std::vector<torch::Tensor> before;
    for (const torch::Tensor& buffer : call.buffers) before.push_back(buffer.detach().clone());
    set_generator_state(call.generator);
    const torch::AutoGradMode records(true);
    const Tensors outputs = call.layer->forward(inputs);
    variable_list roots, of_roots;
    size_t i = 0;
    for (const auto& [name, output] : outputs) {
      const torch::Tensor& gradient = gradients[i++];
      if (!output.requires_grad() || !gradient.defined()) continue;
      roots.push_back(output);
      of_roots.push_back(gradient);
    }
    if (!roots.empty()) torch::autograd::backward(roots, of_roots);
    for (i = 0; i < before.size(); ++i) call.buffers[i].variable_data().copy_(before[i]);
  }
};

// With a graph, which is dropped: layers may choose their kernels by whether gradients are needed.
// Returns whether any output depends on something that is trained.
bool compute_first(LayerCall& call, const Tensors& inputs) {
  std::vector<uint32_t> versions;
  for (const auto& [name, tensor] : inputs) versions.push_back(tensor._version());
  const Tensors outputs = call.layer->forward(inputs);
  auto before = versions.begin();
  for (const auto& [name, tensor] : inputs)
    if (tensor._version() != *before++)
      throw BadInput(
          "layer '{}' changes its input in place, so that it cannot be computed again in the "
          "backward pass: let it compute a new tensor, or keep activations",
          call.layer->name);
  for (const auto& [name, tensor] : outputs) {
    call.output_names.push_back(name);
    call.outputs.push_back(tensor.detach());
    if (!tensor.requires_grad()) call.constants.push_back(call.outputs.back());
  }
  return call.constants.size() < call.outputs.size();
}

}  // namespace

Tensors recomputed(const ModelLayer& layer, const std::vector<torch::Tensor>& buffers,
                   const Tensors& inputs) {
  if (!torch::GradMode::is_enabled()) return layer.forward(inputs);
  auto call = c10::make_intrusive<LayerCall>();
  call->layer = &layer;
  call->buffers = buffers;
  call->generator = generator_state();
  variable_list tensors;
  for (const auto& [name, tensor] : inputs) {
    call->input_names.push_back(name);
    call->input_gradients.push_back(tensor.requires_grad());
    tensors.push_back(tensor);
  }
  if (!compute_first(*call, inputs)) return named(call->output_names, call->outputs);
  const torch::Tensor always = torch::empty({0}, torch::TensorOptions().requires_grad(true));
  const variable_list outputs = Recompute::apply(call, at::TensorList(tensors), always);
  return named(call->output_names, outputs);
}

}  // namespace lockstep::parallel
