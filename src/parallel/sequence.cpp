#include "parallel/sequence.h"

#include <torch/nn/modules/container/sequential.h>

#include "lockstep/error.h"

namespace lockstep::parallel {
namespace {

class ModulesInOrder final : public SequentialModel {
 public:
  explicit ModulesInOrder(torch::nn::SequentialImpl& modules) {
    auto next = modules.begin();
    for (const auto& child : modules.named_children()) {
      const std::string& name = child.key();
      register_module(name, child.value());
      add_layer(name, {name}, [name, module = *next++](const Tensors& inputs) mutable {
        torch::nn::AnyValue result = module.any_forward(inputs.only());
        const torch::Tensor* const tensor = result.try_get<torch::Tensor>();
        if (tensor == nullptr)
          throw BadInput(
              "module '{}' ({}) of the torch::nn::Sequential returns something other than one "
              "tensor, which cannot be sent to the next stage: derive the model from "
              "lockstep::SequentialModel, whose layers return lockstep::Tensors",
              name, module.ptr()->name());
        return Tensors(*tensor);
      });
    }
  }
};

}  // namespace

std::shared_ptr<SequentialModel> sequence_of(const std::shared_ptr<torch::nn::Module>& model) {
  if (!model) throw BadInput("Pipeline got no model: a null pointer or an empty holder");
  auto sequence = std::dynamic_pointer_cast<SequentialModel>(model);
  if (const auto modules = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(model))
    sequence = std::make_shared<ModulesInOrder>(*modules);
  if (!sequence)
    throw BadInput(
        "Pipeline cannot divide a {}, since its forward() is not a sequence of layers: pass a "
        "torch::nn::Sequential, or derive from lockstep::SequentialModel "
        "(lockstep/sequential_model.h) and add the layers by add_layer",
        model->name());
  if (sequence->layers().empty())
    throw BadInput("Pipeline got a {} without layers: add some", model->name());
  return sequence;
}

}  // namespace lockstep::parallel
