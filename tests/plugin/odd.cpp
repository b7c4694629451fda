// Data sets, models and objectives that misbehave while they train.
#include <lockstep/plugin.h>
#include <torch/torch.h>

#include <cstdlib>
#include <limits>
#include <stdexcept>

using namespace lockstep;

namespace {

class Numbers : public Dataset {
 public:
  explicit Numbers(std::string fault) : fault_(std::move(fault)) {}

  int64_t size() const override {
    if (fault_ == "shrinks") --size_;
    if (fault_ == "endless") return std::numeric_limits<int64_t>::max();
    return size_;
  }
  const Fields& fields() const override { return fields_; }
  void write(int64_t index, const Sample& to) const override {
    if (fault_ == "throws" && index == 7) throw std::runtime_error("page 7 is torn out");
    if (fault_ == "throws_a_number" && index == 7) throw 42;
    to.as<float>(0)[0] = static_cast<float>(index) / 100;
    if (fault_ == "forgets") return;
    to.as<float>(1)[0] = static_cast<float>(index) / 50;
    if (fault_ == "differs") to.as<float>(1)[0] = static_cast<float>(++writes_);
  }
  int64_t items(int64_t) const override { return fault_ == "counts_double" ? 2 : 1; }

 private:
  std::string fault_;
  mutable int64_t size_ = 128;
  mutable int64_t writes_ = 0;
  Fields fields_{{{"x", Type::f32, {1}}}, {{"y", Type::f32, {1}}}};
};

// Rows with a label of two classes.
class Labels : public Dataset {
 public:
  explicit Labels(std::string fault) : fault_(std::move(fault)) {}

  int64_t size() const override { return 100; }
  const Fields& fields() const override { return fields_; }
  void write(int64_t index, const Sample& to) const override {
    const bool is_wrong = index == 77;
    to.as<float>(0)[0] = is_wrong && fault_ == "nan" ? std::numeric_limits<float>::quiet_NaN() : 1;
    to.as<int64_t>(1)[0] = is_wrong && fault_ == "beyond" ? 2 : index % 2;
  }

 private:
  std::string fault_;
  Fields fields_{{{"x", Type::f32, {1}}}, {{"label", Type::i64, {}, {"even", "odd"}}}};
};

class OddObjective : public Objective {
 public:
  explicit OddObjective(std::string fault) : fault_(std::move(fault)) {}

  std::vector<Field> outputs() const override { return {{"y", Type::f32, {1}}}; }
  Loss loss(const Tensors& outputs, const Batch& batch) override {
    const torch::Tensor sum = (outputs.only() - batch.targets.only()).square().sum();
    if (fault_ == "nan") return {sum * std::numeric_limits<double>::quiet_NaN(), 1};
    if (fault_ == "negative") return {sum, -1};
    if (fault_ == "detached") return {sum.detach(), 1};
    if (fault_ == "weightless") return {sum, 0};
    if (fault_ == "throws") throw std::runtime_error("no loss today");
    return {sum, static_cast<double>(batch.items)};
  }
  std::vector<Metric> metrics() const override {
    const char* const rank = std::getenv("RANK");
    if (fault_ == "by_rank") return {{.name = rank == nullptr ? "alone" : rank}};
    if (fault_ == "bad_name") return {{.name = "a\nb"}};
    if (fault_ == "nan_metric")
      return {{.name = "mean"}, {.name = "most", .combine = Metric::Combine::max}};
    return {};
  }
  std::vector<Measurement> measure(const Tensors&, const Batch&, Phase) override {
    if (fault_ != "nan_metric") return {};
    const double nan = std::numeric_limits<double>::quiet_NaN();
    return {{nan, 1}, Measurement(nan)};
  }

 private:
  std::string fault_;
};

// Buffers of every kind, a frozen parameter, a shared one.
class OddModel : public Model {
 public:
  explicit OddModel(std::string fault)
      : fault_(std::move(fault)),
        fc_(register_module("fc", torch::nn::Linear(1, 1))),
        frozen_(register_parameter("frozen", torch::ones({2}), /*requires_grad=*/false)),
        calls_(register_buffer("calls", torch::zeros({}, torch::kInt32))),
        mean_(register_buffer("mean", torch::zeros({1}, torch::kFloat64))),
        seen_(register_buffer("seen", torch::zeros({3}, torch::kBool))) {
    register_module("again", fc_);
    if (fault_ == "alias") register_buffer("alias", fc_->weight.detach());
    if (fault_ == "complex") register_buffer("phase", torch::zeros({2}, torch::kComplexFloat));
  }

  Tensors forward(const Tensors& inputs) override {
    if (fault_ == "exits") std::exit(0);
    if (fault_ == "throws") throw std::runtime_error("out of luck");
    if (fault_ == "asks") return inputs["wave"];
    if (fault_ == "shapes") return inputs.only().matmul(torch::ones({7, 7}));
    if (fault_ == "wide") return torch::cat({inputs.only(), fc_(inputs.only())}, 1);
    if (fault_ == "flat") return (fc_(inputs.only()) * frozen_[0]).squeeze(1);
    if (fault_ == "penalty" && is_training()) fc_->weight.square().sum().backward();
    if (fault_ == "changes" || fault_ == "sets_data") {
      torch::NoGradGuard no_grad;
      if (fault_ == "changes") frozen_.mul_(0.99);
      if (fault_ == "sets_data") fc_->weight.set_data(fc_->weight.clamp(-1, 1));
    }
    if (fault_ == "replaces" && is_training()) {
      torch::NoGradGuard no_grad;
      mean_.set_data(0.9 * mean_ + 0.1 * inputs.only().mean().to(torch::kFloat64));
    }
    if (fault_ == "infinite") return fc_(inputs.only()) + (fc_->weight * 0).sqrt().sum();
    if (is_training() || fault_ == "counts_always") {
      torch::NoGradGuard no_grad;
      calls_.add_(1);
      mean_.copy_(0.9 * mean_ + 0.1 * inputs.only().mean().to(torch::kFloat64));
      seen_.fill_(true);
    }
    return fc_(inputs.only()) * frozen_[0];
  }

 private:
  std::string fault_;
  torch::nn::Linear fc_;
  torch::Tensor frozen_, calls_, mean_, seen_;
};

// Two outputs: scores of three kinds, and a number.
class TwoOutputs : public Objective {
 public:
  std::vector<Field> outputs() const override {
    return {{"kind", Type::f32, {3}, {"ant", "bee", "cat"}}, {"size", Type::f32, {}}};
  }
  Loss loss(const Tensors& outputs, const Batch& batch) override {
    return {outputs["kind"].square().sum() + outputs["size"].sum(),
            static_cast<double>(batch.items)};
  }
};

// Says that every x is a bee of size x, whatever it learns. Its outputs come in another order than
// the objective's, with one that is not asked for; `idle` is never used.
class TwoHeads : public Model {
 public:
  TwoHeads()
      : idle_(register_parameter("idle", torch::ones({1}))),
        used_(register_parameter("used", torch::ones({1}))) {}

  Tensors forward(const Tensors& inputs) override {
    const torch::Tensor x = inputs.only();
    const torch::Tensor nothing = used_ * 0;
    const torch::Tensor kind = torch::tensor({{-1.F, 5.F, 0.F}}).repeat({x.size(0), 1}) + nothing;
    return {{"size", (x + nothing).squeeze(1)}, {"spare", x}, {"kind", kind}};
  }

 private:
  torch::Tensor idle_, used_;
};

// Can be divided into stages.
struct TwoLayers : SequentialModel {
  TwoLayers() {
    add_layer("first", register_module("first", torch::nn::Linear(1, 4)));
    add_layer("second", register_module("second", torch::nn::Linear(4, 1)));
  }
};

// The last layer uses more than it lists, or the first one nothing of what it uses.
struct Forgetful : SequentialModel {
  explicit Forgetful(const std::string& fault) {
    const auto first = register_module("first", torch::nn::Linear(1, 4));
    const auto middle = register_module("middle", torch::nn::Linear(4, 4));
    const auto last = register_module("last", torch::nn::Linear(4, 1));
    const auto begin = [=](const Tensors& x) {
      return Tensors(middle->forward(first->forward(x.only())));
    };
    if (fault == "unlisted")
      add_layer("first", {"first"}, begin);
    else
      add_layer("first", {"first", "middle"}, begin);
    add_layer("last", {"last"}, [=](const Tensors& x) {
      return Tensors(last->forward(fault == "borrows" ? middle->forward(x.only()) : x.only()));
    });
  }
};

}  // namespace

LOCKSTEP_PLUGIN(registry) {
  registry.add_dataset("numbers", "128 numbers; option: fault", [](const DatasetOptions& options) {
    const std::string fault = options.options.text("fault", "");
    return Splits{std::make_shared<Numbers>(fault), std::make_shared<Numbers>("")};
  });
  registry.add_dataset("labels", "100 rows; option: fault", [](const DatasetOptions& options) {
    return Splits{std::make_shared<Labels>(options.options.text("fault", "")), nullptr};
  });
  registry.add_objective("odd", "squares; option: fault",
                         [](const ObjectiveOptions& options) -> std::unique_ptr<Objective> {
                           return std::make_unique<OddObjective>(options.options.text("fault", ""));
                         });
  registry.add_objective("two", "a kind and a size",
                         [](const ObjectiveOptions&) -> std::unique_ptr<Objective> {
                           return std::make_unique<TwoOutputs>();
                         });
  registry.add_model(
      "two", "two outputs, and a parameter that is never used",
      [](const ModelOptions&) -> std::shared_ptr<Model> { return std::make_shared<TwoHeads>(); });
  registry.add_model("layers", "two layers", [](const ModelOptions&) -> std::shared_ptr<Model> {
    return std::make_shared<TwoLayers>();
  });
  registry.add_model("forgetful", "two layers; option: fault",
                     [](const ModelOptions& options) -> std::shared_ptr<Model> {
                       return std::make_shared<Forgetful>(options.options.text("fault", ""));
                     });
  registry.add_model("odd", "buffers of every kind; option: fault",
                     [](const ModelOptions& options) -> std::shared_ptr<Model> {
                       return std::make_shared<OddModel>(options.options.text("fault", ""));
                     });
}
