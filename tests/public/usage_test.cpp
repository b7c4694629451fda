// The usage examples of the public headers: examples_test.py checks that each of them stands here
// as it stands there.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <lockstep/lockstep.h>
#include <lockstep/plugin.h>
#include <lockstep/virtual_device.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <array>
#include <filesystem>
#include <span>
#include <sstream>
#include <vector>

#include "temporary_folder.h"

namespace {

class Squares : public lockstep::Dataset {
 public:
  int64_t size() const override { return 1000; }
  const lockstep::Fields& fields() const override { return fields_; }
  void write(int64_t index, const lockstep::Sample& to) const override {
    to.as<float>(0)[0] = static_cast<float>(index);
    to.as<float>(1)[0] = static_cast<float>(index * index);
  }

 private:
  lockstep::Fields fields_{{{"x", lockstep::Type::f32, {1}}}, {{"y", lockstep::Type::f32, {1}}}};
};

class Line : public lockstep::Model {
 public:
  explicit Line(const lockstep::ModelOptions& options)
      : fc_(register_module("fc", torch::nn::Linear(options.input_size(), options.output_size()))) {
  }
  lockstep::Tensors forward(const lockstep::Tensors& inputs) override {
    return fc_(inputs.only().flatten(1));
  }

 private:
  torch::nn::Linear fc_;
};

class Mlp : public lockstep::SequentialModel {
 public:
  explicit Mlp(const lockstep::ModelOptions& options) {
    auto fc1 = register_module("fc1", torch::nn::Linear(options.input_size(), 512));
    add_layer("fc1", {"fc1"}, [fc1](const lockstep::Tensors& inputs) {
      return torch::relu(fc1->forward(inputs.only().flatten(1)));
    });
    add_layer("fc2", register_module("fc2", torch::nn::Linear(512, options.output_size())));
  }
};

class AbsoluteError : public lockstep::Objective {
 public:
  explicit AbsoluteError(const lockstep::ObjectiveOptions& options)
      : targets_(options.fields.targets) {}

  std::vector<lockstep::Field> outputs() const override { return targets_; }
  lockstep::Loss loss(const lockstep::Tensors& outputs, const lockstep::Batch& batch) override {
    const auto error = outputs.only() - batch.targets.only();
    return {error.abs().sum(), static_cast<double>(batch.items)};
  }

 private:
  std::vector<lockstep::Field> targets_;
};

struct Signs : lockstep::GradientHook {
  void reduce(lockstep::GradientBucket& bucket, lockstep::World& world) override {
    bucket.values.sign_();
    world.all_reduce(bucket.values, lockstep::Operation::mean);
  }
};

LOCKSTEP_PLUGIN(registry) {
  registry.add_model("line", "one linear layer", [](const lockstep::ModelOptions& options) {
    return std::shared_ptr<lockstep::Model>(new Line(options));
  });
}

// Before the first backward pass of any test.
[[maybe_unused]] const int devices_made = (lockstep::make_virtual_devices({.count = 2}), 2);

// What a program's main is given.
int argc = 1;
std::array<char, 8> program = {"program"};
std::array<char*, 2> arguments = {program.data(), nullptr};
char** argv = arguments.data();

torch::Tensor two_sums(const torch::Tensor& left, const torch::Tensor& right) {
  const lockstep::Tensors inputs{{"left", left}, {"right", right}};
  const lockstep::Tensors outputs = inputs["left"] + inputs["right"];
  return outputs.only().sum();
}

torch::Tensor two_layers(const torch::Tensor& x) {
  const auto options = torch::nn::Conv2dOptions(8, 8, 3).padding(1).bias(false);
  torch::nn::Conv2d conv1(options), conv2(options);
  torch::nn::BatchNorm2d bn1(8), bn2(8);
  torch::nn::Linear fc(8, 2);
  const auto y = lockstep::nn::ConvBn(conv1, bn1)(x);     // relu(bn1(conv1(x)))
  const auto z = lockstep::nn::ConvBn(conv2, bn2)(y, y);  // relu(bn2(conv2(y)) + y)
  return fc(lockstep::nn::mean_pool(z));
}

// The current folder is a temporary one.
struct InTemporaryFolder {
  InTemporaryFolder() { std::filesystem::current_path(folder.path()); }
  ~InTemporaryFolder() { std::filesystem::current_path(before); }
  InTemporaryFolder(const InTemporaryFolder&) = delete;
  InTemporaryFolder& operator=(const InTemporaryFolder&) = delete;
  const std::filesystem::path before = std::filesystem::current_path();
  const lockstep::TemporaryFolder folder;
};

void refuse(int batch) {
  throw lockstep::BadInput("--batch {}: expected a number of at least 1", batch);
}

}  // namespace

TEST(Usage, OfTensors) {
  EXPECT_EQ(two_sums(torch::ones({3}), torch::ones({3})).item<float>(), 6);
}

TEST(Usage, OfDatasets) {
  const Squares squares;
  float x = 0, y = 0;
  const std::array memory = {std::as_writable_bytes(std::span(&x, 1)),
                             std::as_writable_bytes(std::span(&y, 1))};
  squares.write(7, lockstep::Sample(squares.fields(), memory, 0));
  EXPECT_EQ(x, 7);
  EXPECT_EQ(y, 49);
}

TEST(Usage, OfModelsAndObjectives) {
  const lockstep::Fields fields = Squares().fields();
  Line line({.name = "line", .inputs = fields.inputs, .outputs = fields.targets, .options = {}});
  AbsoluteError objective({.fields = fields, .options = {}});
  const lockstep::Batch batch = {torch::ones({5, 1}), torch::ones({5, 1}), 5, 5};
  const lockstep::Loss loss = objective.loss(line.forward(batch.inputs), batch);
  EXPECT_GE(loss.sum.item<float>(), 0);
  EXPECT_EQ(loss.weight, 5);
}

TEST(Usage, OfOptions) {
  const lockstep::Options options = {{"width", "32"}};
  const int64_t width = options.integer("width", 64);
  const double dropout = options.number("dropout", 0.5);
  EXPECT_EQ(width, 32);
  EXPECT_EQ(dropout, 0.5);
}

TEST(Usage, OfErrors) {
  EXPECT_THROW(refuse(0), lockstep::BadInput);
}

TEST(Usage, OfFusedLayers) {
  EXPECT_EQ(two_layers(torch::ones({2, 8, 6, 6})).sizes(), (std::vector<int64_t>{2, 2}));
}

TEST(Usage, OfTheWorld) {
  const double loss = 2;
  auto world = lockstep::init(argc, argv);
  auto losses = torch::full({1}, loss);
  world.all_reduce(losses, lockstep::Operation::mean);
  if (world.rank() == 0) fmt::print("mean loss {}\n", losses.item<double>());
  EXPECT_EQ(losses.item<double>(), 2);
}

TEST(Usage, OfSyncBatchNorm) {
  const lockstep::World world = lockstep::init();
  lockstep::nn::SyncBatchNorm norm(64, world);
  EXPECT_EQ(norm->forward(torch::ones({2, 64})).sizes(), (std::vector<int64_t>{2, 64}));
}

TEST(Usage, OfDistributedDataParallel) {
  const auto x = torch::ones({3, 4});
  const auto y = torch::zeros({3}, torch::kLong);
  auto world = lockstep::init(argc, argv);
  torch::nn::Linear model(4, 2);
  lockstep::DistributedDataParallel ddp(model, world);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  auto loss = torch::cross_entropy_loss(ddp(x), y);
  optimizer.zero_grad();
  loss.backward();  // returns when gradients are the mean over all workers
  optimizer.step();
  EXPECT_TRUE(ddp.step_complete());
}

TEST(Usage, OfSequentialModels) {
  Mlp model({.name = "mlp",
             .inputs = {{"x", lockstep::Type::f32, {2, 3}}},
             .outputs = {{"y", lockstep::Type::f32, {4}}}});
  EXPECT_EQ(model.layers().size(), 2);
  EXPECT_EQ(model.forward(torch::ones({5, 2, 3})).only().sizes(), (std::vector<int64_t>{5, 4}));
}

TEST(Usage, OfShardedOptimizers) {
  const auto x = torch::ones({3, 4});
  const auto y = torch::zeros({3}, torch::kLong);
  const InTemporaryFolder here;
  auto world = lockstep::init(argc, argv);
  torch::nn::Linear model(4, 2);
  lockstep::DistributedDataParallel ddp(model, world);
  lockstep::ShardedOptimizer<torch::optim::AdamW> optimizer(
      model->parameters(), torch::optim::AdamWOptions(1e-3), world);
  auto loss = torch::cross_entropy_loss(ddp(x), y);
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();                     // on all workers
  optimizer.save_to("optimizer.pt");    // on all workers; rank 0 writes
  optimizer.load_from("optimizer.pt");  // on any number of workers
  EXPECT_EQ(optimizer.share().state().size(), 2);
}

TEST(Usage, OfDataParallel) {
  const auto x = torch::ones({3, 4});
  const auto y = torch::zeros({3}, torch::kLong);
  const std::vector<torch::Device> devices = {lockstep::virtual_device(0),
                                              lockstep::virtual_device(1)};
  torch::nn::Linear model(4, 2);
  model->to(devices[0]);
  lockstep::DataParallel parallel(model, devices);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  auto loss = torch::cross_entropy_loss(parallel(x), y.to(devices[0]));
  optimizer.zero_grad();
  loss.backward();  // gradients are the sums over all devices
  optimizer.step();
  EXPECT_EQ(parallel.last().devices, 2);
}

TEST(Usage, OfPipelines) {
  const auto x = torch::ones({8, 4});
  const auto y = torch::zeros({8}, torch::kLong);
  const InTemporaryFolder here;
  auto world = lockstep::init(argc, argv);
  torch::nn::Sequential model(torch::nn::Linear(4, 32), torch::nn::ReLU(),
                              torch::nn::Linear(32, 2));
  lockstep::Pipeline pipeline(model, world, {.micro_batches = 4});
  torch::optim::SGD optimizer(pipeline.parameters(), 0.1);  // of this worker's stages
  double loss = pipeline.step(x, y, [](const auto& output, const auto& target) {
    return torch::cross_entropy_loss(output, target);
  });
  optimizer.step();
  torch::Tensor outputs = pipeline.forward(x);  // evaluation, on all workers
  pipeline.save_to("model.pt");                 // on all workers; rank 0 writes
  EXPECT_GT(loss, torch::cross_entropy_loss(outputs, y).item<double>());
  EXPECT_TRUE(std::filesystem::exists("model.pt"));
}

TEST(Usage, OfTorchScriptModules) {
  const auto x = torch::ones({3, 4});
  const auto y = torch::zeros({3}, torch::kLong);
  torch::jit::Module linear("linear");
  linear.register_parameter("weight", torch::ones({4, 2}).requires_grad_(), false);
  linear.define("def forward(self, x):\n  return torch.matmul(x, self.weight)\n");
  std::stringstream file;
  linear.save(file);
  auto world = lockstep::init(argc, argv);
  lockstep::DistributedDataParallel scripted(torch::jit::load(file), world);
  auto scripted_loss = torch::cross_entropy_loss(scripted(x).toTensor(), y);
  scripted_loss.backward();
  EXPECT_TRUE(scripted.parameters()[0].grad().defined());
}

TEST(Usage, OfCollectivesInTheBackground) {
  const auto compute_something_else = [] {};
  auto totals = torch::ones({3});
  auto world = lockstep::init();
  auto started = world.all_reduce_async(totals);
  compute_something_else();
  started.wait();  // now `totals` are the sums
  EXPECT_EQ(totals.sum().item<float>(), 3);
}

TEST(Usage, OfSplittingTheWorld) {
  auto world = lockstep::init();
  auto row = world.split(world.rank() / 4);  // workers 0 to 3, 4 to 7, ...
  auto column = world.split(world.rank() % 4);
  EXPECT_EQ(row->size() * column->size(), 1);
}

TEST(Usage, OfSumsOverSeveralPasses) {
  const auto first = torch::ones({3, 4});
  const auto second = torch::zeros({3, 4});
  auto world = lockstep::init();
  torch::nn::Linear model(4, 2);
  lockstep::DistributedDataParallel ddp(model, world);
  const auto loss_of = [&](const torch::Tensor& x) { return ddp.forward(x).sum(); };
  {
    const auto scope = ddp.no_sync();
    loss_of(first).backward();
  }
  loss_of(second).backward();  // gradients: sums of both passes, averaged over workers
  EXPECT_EQ(model->bias.grad()[0].item<float>(), 6);
}

TEST(Usage, OfLoopsWithDifferentNumbersOfBatches) {
  auto world = lockstep::init();
  torch::nn::Linear model(4, 2);
  lockstep::DistributedDataParallel ddp(model, world);
  torch::optim::Adam optimizer(model->parameters());
  const auto train_an_epoch = [](auto& net, torch::optim::Adam& updates) {
    net.forward(torch::ones({3, 4})).sum().backward();
    updates.step();
  };
  ddp.join([&] { train_an_epoch(ddp, optimizer); }, {&optimizer});
  EXPECT_EQ(optimizer.state().size(), 2);
}

TEST(Usage, OfBytesSent) {
  auto world = lockstep::init();
  torch::nn::Linear model(4, 2);
  lockstep::DistributedDataParallel ddp(model, world, {.hook = std::make_shared<Signs>()});
  auto loss = ddp.forward(torch::ones({3, 4})).sum();
  const int64_t before = world.bytes_sent();
  loss.backward();
  fmt::print("{} bytes of gradients\n", world.bytes_sent() - before);
  EXPECT_EQ(model->bias.grad()[0].item<float>(), 1);  // as a sign
}

TEST(Usage, OfATrainingLoop) {
  const size_t samples = 100;
  torch::nn::Linear model(4, 2);
  auto world = lockstep::init(argc, argv);
  lockstep::DistributedDataParallel ddp(model, world);
  lockstep::DistributedSampler sampler(samples, world);
  EXPECT_EQ(sampler.size(), 100U);
}

TEST(Usage, OfSamplers) {
  const auto world = lockstep::init();
  auto dataset = torch::data::datasets::TensorDataset(torch::arange(100))
                     .map(torch::data::transforms::Stack<torch::data::TensorExample>());
  const int epochs = 2;
  int64_t seen = 0;
  const auto train_on = [&](const torch::data::TensorExample& batch) {
    seen += batch.data.size(0);
  };
  lockstep::DistributedSampler sampler(dataset.size().value(), world);
  auto loader = torch::data::make_data_loader(std::move(dataset), sampler, 64);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    sampler.set_epoch(epoch);  // the loader shares it
    for (auto& batch : *loader) train_on(batch);
  }
  EXPECT_EQ(seen, 200);
}
