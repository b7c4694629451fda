#include <torch/nn/modules/linear.h>

#include "lockstep/sequential_model.h"
#include "model/models.h"

namespace lockstep::model {
namespace {

constexpr int64_t kHidden = 512;

class Mlp final : public SequentialModel {
 public:
  explicit Mlp(const ModelOptions& options)
      : fc1_(register_module("fc1", torch::nn::Linear(options.input_size(), kHidden))),
        fc2_(register_module("fc2", torch::nn::Linear(kHidden, kHidden))),
        fc3_(register_module("fc3", torch::nn::Linear(kHidden, options.output_size()))) {
    add_layer("fc1", {"fc1"},
              [this](const Tensors& x) { return torch::relu(fc1_(x.only().flatten(1))); });
    add_layer("fc2", {"fc2"}, [this](const Tensors& x) { return torch::relu(fc2_(x.only())); });
    add_layer("fc3", fc3_.ptr());
  }

 private:
  torch::nn::Linear fc1_, fc2_, fc3_;
};

class Logistic final : public Model {
 public:
  explicit Logistic(const ModelOptions& options)
      : fc_(register_module("fc", torch::nn::Linear(options.input_size(), options.output_size()))) {
  }

  Tensors forward(const Tensors& inputs) override { return fc_(inputs.only().flatten(1)); }

 private:
  torch::nn::Linear fc_;
};

template <typename Made>
std::shared_ptr<Model> make(const ModelOptions& options) {
  return std::make_shared<Made>(options);
}

const bool mlp_added = models().add(
    {"mlp", "two hidden layers of 512 with ReLU, for samples of any shape", make<Mlp>});
const bool logistic_added =
    models().add({"logistic", "one linear layer, for samples of any shape", make<Logistic>});

}  // namespace
}  // namespace lockstep::model
