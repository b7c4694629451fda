// Your own data set, model and objective for `lockstep train`: which of two spirals does a point
// lie on, and how far from the centre? Build it as examples/CMakeLists.txt does, then:
//
//   lockstep train --load build/examples/libspirals.so --data spirals --model spiral-net
//       --objective spiral --batch 64 --epochs 20 --workers 2
//
// Takes about 10 seconds; test side is 99 % or more. The model sha256 is the same on any number of
// workers.
#include <lockstep/plugin.h>
#include <torch/torch.h>

#include <cmath>

using namespace lockstep;

namespace {

// Points in the plane. Nothing is stored: sample i is computed when it is read.
class Spirals : public Dataset {
 public:
  explicit Spirals(int64_t size) : size_(size) {}

  int64_t size() const override { return size_; }
  const Fields& fields() const override { return fields_; }
  void write(int64_t index, const Sample& to) const override {
    const auto side = static_cast<float>(index % 2);
    const float turn = static_cast<float>(index % 1009) / 1009 * 9;
    const float angle = turn + side * 3.14159265F;
    const auto point = to.as<float>(0);
    point[0] = turn * std::cos(angle) / 9;
    point[1] = turn * std::sin(angle) / 9;
    to.as<float>(1)[0] = side;
    to.as<float>(2)[0] = turn / 9;
  }

 private:
  int64_t size_;
  Fields fields_{{{"point", Type::f32, {2}}},
                 {{"side", Type::f32, {}}, {"distance", Type::f32, {}}}};
};

class SpiralNet : public Model {
 public:
  explicit SpiralNet(int64_t width)
      : body_(register_module(
            "body", torch::nn::Sequential(torch::nn::Linear(2, width), torch::nn::Tanh(),
                                          torch::nn::Linear(width, width), torch::nn::Tanh()))),
        side_(register_module("side", torch::nn::Linear(width, 1))),
        distance_(register_module("distance", torch::nn::Linear(width, 1))) {}

  Tensors forward(const Tensors& inputs) override {
    const torch::Tensor x = body_->forward(inputs.only() * 5);
    return {{"side", side_(x).squeeze(1)}, {"distance", distance_(x).squeeze(1)}};
  }

 private:
  torch::nn::Sequential body_;
  torch::nn::Linear side_, distance_;
};

// Both at once: a logistic loss for the side, squared error for the distance.
class SpiralObjective : public Objective {
 public:
  std::vector<Field> outputs() const override {
    return {{"side", Type::f32, {}}, {"distance", Type::f32, {}}};
  }
  Loss loss(const Tensors& outputs, const Batch& batch) override {
    const torch::Tensor side = torch::binary_cross_entropy_with_logits(
        outputs["side"], batch.targets["side"], {}, {}, at::Reduction::Sum);
    const torch::Tensor distance =
        torch::mse_loss(outputs["distance"], batch.targets["distance"], at::Reduction::Sum);
    return {side + distance, static_cast<double>(batch.items)};
  }
  std::vector<Metric> metrics() const override {
    return {{.name = "side", .print = Metric::Print::percent}};
  }
  std::vector<Measurement> measure(const Tensors& outputs, const Batch& batch, Phase) override {
    const torch::Tensor right = (outputs["side"] > 0).eq(batch.targets["side"] > 0.5);
    return {{right.sum().item<double>(), static_cast<double>(batch.samples)}};
  }
};

}  // namespace

LOCKSTEP_PLUGIN(registry) {
  registry.add_dataset("spirals", "points on two spirals", [](const DatasetOptions& options) {
    const int64_t size = options.options.integer("size", 4096);
    return Splits{std::make_shared<Spirals>(size), std::make_shared<Spirals>(size / 4)};
  });
  registry.add_model("spiral-net", "two hidden layers; option: width",
                     [](const ModelOptions& options) -> std::shared_ptr<Model> {
                       return std::make_shared<SpiralNet>(options.options.integer("width", 64));
                     });
  registry.add_objective("spiral", "which spiral, and how far out",
                         [](const ObjectiveOptions&) -> std::unique_ptr<Objective> {
                           return std::make_unique<SpiralObjective>();
                         });
}
