#include "parallel/recompute.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "lockstep/error.h"
#include "parallel/arrival.h"
#include "parallel/changes_in_place.h"
#include "parallel/distinct_tensors.h"
#include "parallel/generator.h"
#include "parallel/graph_inputs.h"
#include "parallel/outgoing.h"
#include "parallel/packed_tensor.h"

namespace lockstep::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A layer's call, for the backward pass. The layer belongs to a model, which outlives its graphs.
struct LayerCall : torch::CustomClassHolder {
  const ModelLayer* layer = nullptr;
  std::vector<torch::Tensor> buffers;
  std::vector<TensorName> input_names;
  std::vector<bool> input_gradients;  ///< whether they are needed
  std::vector<TensorName> output_names;
  variable_list outputs;    ///< without their history, until the graph has them
  variable_list constants;  ///< those of them that have none
  torch::Tensor generator;  ///< its state before the layer
};

constexpr const char* kCall = "call";

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
    for (const torch::Tensor& output : DistinctTensors(outputs).tensors) {
      const torch::Tensor& gradient = gradients[i++];
      if (!output.requires_grad() || !gradient.defined()) continue;
      roots.push_back(output);
      of_roots.push_back(gradient);
    }
    backward_together(std::move(roots), of_roots);
    for (i = 0; i < before.size(); ++i) call.buffers[i].variable_data().copy_(before[i]);
  }
};

// With a graph, which is dropped: layers may choose their kernels by whether gradients are needed.
// So are hooks of the inputs: the layer registers them again in the backward pass, where they
// count. Returns whether any output depends on something that is trained.
bool compute_first(LayerCall& call, const Tensors& inputs) {
  const ChangesInPlace changes(inputs);
  DistinctTensors outputs(call.layer->forward(GraphInputs(inputs).tensors()));
  if (changes.found())
    throw BadInput(
        "layer '{}' changes its input in place, so that it cannot be computed again in the "
        "backward pass: let it compute a new tensor, or keep activations",
        call.layer->name);
  call.output_names = std::move(outputs.names);
  for (const torch::Tensor& output : outputs.tensors) {
    const bool is_buffer = std::ranges::any_of(
        call.buffers, [&](const torch::Tensor& buffer) { return share_storage(buffer, output); });
    call.outputs.push_back(is_buffer ? copied(output, output.device()) : output.detach());
    if (!output.requires_grad()) call.constants.push_back(call.outputs.back());
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
  DistinctTensors distinct(inputs);
  call->input_names = std::move(distinct.names);
  for (const torch::Tensor& tensor : distinct.tensors)
    call->input_gradients.push_back(tensor.requires_grad());
  if (!compute_first(*call, inputs)) return named(call->output_names, call->outputs);
  const torch::Tensor always = torch::empty({0}, torch::TensorOptions().requires_grad(true));
  const variable_list outputs = Recompute::apply(call, at::TensorList(distinct.tensors), always);
  return named(call->output_names, outputs);
}

}  // namespace lockstep::parallel
