#include "model/in_precision.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <map>
#include <string>

#include "expect_error.h"
#include "lockstep/sequential_model.h"

namespace lockstep::model {
namespace {

// Notes what its layers were given.
struct Seen {
  std::map<std::string, at::ScalarType> types;
  bool training = false;
};

class TwoLayers : public SequentialModel {
 public:
  explicit TwoLayers(Seen& seen) : scale_(register_parameter("scale", torch::ones({1}))) {
    auto first = register_module("first", torch::nn::Linear(3, 4));
    add_layer("first", {"first", "scale"}, [this, first, &seen](const Tensors& inputs) {
      seen.types["first"] = inputs.only().scalar_type();
      seen.training = is_training();
      return Tensors(first->forward(inputs.only() * scale_));
    });
    auto second = register_module("second", torch::nn::Linear(4, 2));
    add_layer("second", {"second"}, [second, &seen](const Tensors& inputs) {
      seen.types["second"] = inputs.only().scalar_type();
      return Tensors(second->forward(inputs.only()));
    });
  }

 private:
  torch::Tensor scale_;
};

class OneLayer : public Model {
 public:
  OneLayer() : layer_(register_module("layer", torch::nn::Linear(3, 2))) {}
  Tensors forward(const Tensors& inputs) override {
    const torch::Tensor outputs = layer_(inputs.only());
    type = outputs.scalar_type();
    return Tensors(outputs);
  }
  at::ScalarType type = at::kFloat;

 private:
  torch::nn::Linear layer_;
};

TEST(InPrecision, OfFloat32IsTheModelItself) {
  const auto model = std::make_shared<OneLayer>();
  EXPECT_EQ(in_precision(model, "fp32"), model);
}

TEST(InPrecision, ComputesLayersInBfloat16AndTheLastOutputsInFloat32) {
  Seen seen;
  const auto model = std::make_shared<TwoLayers>(seen);
  const auto lower = in_precision(model, "bf16");
  const torch::Tensor x = torch::ones({5, 3});
  const torch::Tensor outputs = lower->forward(Tensors(x)).only();
  EXPECT_EQ(seen.types["first"], torch::kFloat);
  EXPECT_EQ(seen.types["second"], torch::kBFloat16);
  EXPECT_EQ(outputs.scalar_type(), torch::kFloat);
  const torch::Tensor exact = model->forward(Tensors(x)).only();
  EXPECT_EQ(seen.types["second"], torch::kFloat);
  EXPECT_TRUE(torch::allclose(outputs, exact, 0.02, 0.02));
  EXPECT_FALSE(outputs.equal(exact));
}

TEST(InPrecision, SharesParametersByNameAndGivesThemFloat32Gradients) {
  Seen seen;
  const auto model = std::make_shared<TwoLayers>(seen);
  const auto lower = in_precision(model, "bf16");
  const auto own = model->named_parameters(), others = lower->named_parameters();
  ASSERT_EQ(own.keys(), others.keys());
  for (const std::string& name : own.keys()) EXPECT_TRUE(own[name].is_same(others[name])) << name;
  lower->forward(Tensors(torch::ones({5, 3}))).only().sum().backward();
  for (const auto& item : own) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_EQ(item.value().grad().scalar_type(), torch::kFloat) << item.key();
  }
  lower->eval();
  lower->forward(Tensors(torch::ones({5, 3})));
  EXPECT_FALSE(seen.training);
  lower->train();
  lower->forward(Tensors(torch::ones({5, 3})));
  EXPECT_TRUE(seen.training);
}

// As with a teacher, whose outputs have no gradient.
class UsedTwice : public Model {
 public:
  UsedTwice() : layer_(register_module("layer", torch::nn::Linear(3, 3))) {}
  Tensors forward(const Tensors& inputs) override {
    torch::Tensor teacher;
    {
      const torch::NoGradGuard no_grad;
      teacher = layer_(inputs.only());
    }
    return Tensors(layer_(inputs.only()) - teacher);
  }

 private:
  torch::nn::Linear layer_;
};

TEST(InPrecision, GivesGradientsToParametersThatWereUsedWithoutBefore) {
  const auto model = std::make_shared<UsedTwice>();
  in_precision(model, "bf16")->forward(Tensors(torch::ones({5, 3}))).only().sum().backward();
  for (const auto& item : model->named_parameters())
    EXPECT_TRUE(item.value().grad().defined()) << item.key();
}

class Moves : public OneLayer {
 public:
  void to(torch::Device device, bool non_blocking) override {
    moved = true;
    OneLayer::to(device, non_blocking);
  }
  bool moved = false;
};

TEST(InPrecision, MovesAModelByItsOwnFunction) {
  const auto model = std::make_shared<Moves>();
  in_precision(model, "bf16")->to(torch::kCPU);
  EXPECT_TRUE(model->moved);
}

// What LibTorch says of a pass in bf16 whose model does this with the layer's outputs.
template <typename Use>
std::string complaint_of(const Use& use) {
  class Odd : public OneLayer {
   public:
    explicit Odd(Use use) : use_(std::move(use)) {}
    Tensors forward(const Tensors& inputs) override {
      return Tensors(use_(OneLayer::forward(inputs).only()));
    }

   private:
    const Use use_;
  };
  try {
    in_precision(std::make_shared<Odd>(use), "bf16")->forward(Tensors(torch::ones({2, 3})));
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "nothing was thrown";
}

TEST(InPrecision, SaysThatItIsWhatAnOperatorCannotDo) {
  const std::string complaint = complaint_of([](const torch::Tensor& x) {
    TORCH_CHECK(x.scalar_type() == torch::kFloat, "\"odd\" not implemented for 'BFloat16'");
    return x;
  });
  EXPECT_TRUE(has(complaint, "\"odd\" not implemented for 'BFloat16'")) << complaint;
  EXPECT_TRUE(has(complaint, "try --precision fp32")) << complaint;
}

TEST(InPrecision, IsNotBlamedForErrorsThatFloat32HasToo) {
  const std::string complaint =
      complaint_of([](const torch::Tensor& x) { return x.mm(torch::ones({5, 5})); });
  EXPECT_TRUE(has(complaint, "shapes cannot be multiplied (2x2 and 5x5)")) << complaint;
  EXPECT_FALSE(has(complaint, "fp32")) << complaint;
}

TEST(InPrecision, ComputesModelsThatListNoLayers) {
  const auto model = std::make_shared<OneLayer>();
  const auto lower = in_precision(model, "bf16");
  EXPECT_EQ(lower->forward(Tensors(torch::ones({5, 3}))).only().scalar_type(), torch::kFloat);
  EXPECT_EQ(model->type, torch::kBFloat16);
}

}  // namespace
}  // namespace lockstep::model
