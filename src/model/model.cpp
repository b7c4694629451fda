#include "model/model.h"

#include <ATen/Context.h>

#include <functional>
#include <utility>

#include "base/nearest.h"
#include "device/random.h"
#include "lockstep/error.h"
#include "model/convnet.h"
#include "model/dense.h"
#include "model/resnet.h"

namespace lockstep::model {
namespace {

using Maker = std::function<std::shared_ptr<Model>(const ModelOptions&)>;

Maker cifar_resnet(int64_t depth) {
  return [depth](const ModelOptions& options) { return make_cifar_resnet(depth, options); };
}

// In the order to show them.
const std::vector<std::pair<std::string, Maker>>& makers() {
  static const std::vector<std::pair<std::string, Maker>> table = {
      {"convnet", make_convnet},        {"mlp", make_mlp},
      {"logistic", make_logistic},      {"resnet18", make_resnet18},
      {"resnet20", cifar_resnet(20)},   {"resnet32", cifar_resnet(32)},
      {"resnet44", cifar_resnet(44)},   {"resnet56", cifar_resnet(56)},
      {"resnet110", cifar_resnet(110)},
  };
  return table;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : makers()) names.push_back(name);
  return names;
}

nn::Kernels kernels_named(const std::string& name) {
  return name == "torch" ? nn::Kernels::torch : nn::Kernels::fused;
}

std::shared_ptr<Model> make_model(const ModelOptions& options) {
  for (const auto& [name, make] : makers()) {
    if (name != options.name) continue;
    // LibTorch's layers draw their weights from the global generator as they are made.
    torch::manual_seed(RandomStream(Purpose::weights, options.seed).next());
    return make(options);
  }
  throw BadInput("model.name '{}': no such model{}; there are: {}", options.name,
                 did_you_mean(options.name, model_names()), fmt::join(model_names(), ", "));
}

}  // namespace lockstep::model
