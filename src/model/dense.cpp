#include "model/dense.h"

#include <torch/nn/modules/linear.h>

#include <functional>
#include <numeric>

namespace lockstep::model {
namespace {

constexpr int64_t kHidden = 512;

int64_t inputs(const ModelOptions& options) {
  return std::accumulate(options.input.begin(), options.input.end(), int64_t{1},
                         std::multiplies<>());
}

class Mlp final : public Model {
 public:
  explicit Mlp(const ModelOptions& options)
      : fc1_(register_module("fc1", torch::nn::Linear(inputs(options), kHidden))),
        fc2_(register_module("fc2", torch::nn::Linear(kHidden, kHidden))),
        fc3_(register_module("fc3", torch::nn::Linear(kHidden, options.classes))) {}

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(fc1_(x.flatten(1)));
    return fc3_(torch::relu(fc2_(x)));
  }

 private:
  torch::nn::Linear fc1_, fc2_, fc3_;
};

class Logistic final : public Model {
 public:
  explicit Logistic(const ModelOptions& options)
      : fc_(register_module("fc", torch::nn::Linear(inputs(options), options.classes))) {}

  torch::Tensor forward(torch::Tensor x) override { return fc_(x.flatten(1)); }

 private:
  torch::nn::Linear fc_;
};

}  // namespace

std::shared_ptr<Model> make_mlp(const ModelOptions& options) {
  return std::make_shared<Mlp>(options);
}

std::shared_ptr<Model> make_logistic(const ModelOptions& options) {
  return std::make_shared<Logistic>(options);
}

}  // namespace lockstep::model
