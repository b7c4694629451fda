#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include "lockstep/ddp.h"

namespace lockstep {
namespace {

// A TorchScript module as a module of LibTorch's C++ interface: with the same tensors under the
// same names.
class ScriptedModule : public torch::nn::Module {
 public:
  explicit ScriptedModule(torch::jit::Module scripted) : scripted_(std::move(scripted)) {
    for (const auto& item : scripted_.named_parameters(/*recurse=*/false))
      register_parameter(item.name, item.value, item.value.requires_grad());
    for (const auto& item : scripted_.named_buffers(/*recurse=*/false))
      register_buffer(item.name, item.value);
    for (const auto& item : scripted_.named_children())
      register_module(item.name, std::make_shared<ScriptedModule>(item.value));
  }

  void train(bool on) override { scripted_.train(on); }
  bool is_training() const noexcept override { return scripted_.is_training(); }

 private:
  torch::jit::Module scripted_;
};

}  // namespace

std::shared_ptr<torch::nn::Module> parallel::module_of(
    const std::shared_ptr<torch::jit::Module>& model) {
  return std::make_shared<ScriptedModule>(*model);
}

}  // namespace lockstep
