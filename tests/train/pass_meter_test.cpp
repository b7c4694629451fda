// What passes need by measuring them, and that a training divides a model and counts its memory as
// `lockstep fit` does.
#include "train/pass_meter.h"

#include <gtest/gtest.h>

#include "base/model_error.h"
#include "expect_error.h"
#include "fit/ways.h"
#include "lockstep/sequential_model.h"
#include "model/models.h"
#include "parallel/model_part.h"
#include "train/make_model.h"
#include "train/memory.h"
#include "train/short_runs.h"

namespace lockstep::train {
namespace {

// Dense layers with activations of their own and BatchNorm, which refuses one sample; two of them
// have one weight.
struct Many : SequentialModel {
  explicit Many(const ModelOptions& options) {
    using torch::nn::Linear;
    const auto relu = [](const Tensors& x) { return Tensors(torch::relu(x.only())); };
    const auto shared = register_module("shared", Linear(16, 16));
    const auto call = [shared](const Tensors& x) { return Tensors(shared->forward(x.only())); };
    add_layer("flatten", {}, [](const Tensors& x) { return Tensors(x.only().flatten(1)); });
    add_layer("fc0", register_module("fc0", Linear(options.input_size(), 16)));
    add_layer("norm", register_module("norm", torch::nn::BatchNorm1d(16)));
    add_layer("relu0", {}, relu);
    add_layer("fc1", {"shared"}, call);
    add_layer("relu1", {}, relu);
    add_layer("fc2", {"shared"}, call);
    add_layer("fc3", register_module("fc3", Linear(16, options.output_size())));
    add_layer("scale", {}, [](const Tensors& x) { return Tensors(2 * x.only()); });
  }
};

struct One : SequentialModel {
  explicit One(const ModelOptions& options) {
    add_layer("fc", register_module(
                        "fc", torch::nn::Linear(options.input_size(), options.output_size())));
  }
};

struct Undefined : SequentialModel {
  explicit Undefined(const ModelOptions& options) {
    const auto first = register_module("first", torch::nn::Linear(options.input_size(), 16));
    const auto last = register_module("last", torch::nn::Linear(16, options.output_size()));
    add_layer("first", {"first"}, [first](const Tensors& x) {
      return Tensors{{"none", {}}, {"x", first->forward(x.only().flatten(1))}};
    });
    add_layer("last", {"last"},
              [last](const Tensors& x) { return Tensors(last->forward(x["x"])); });
  }
};

template <typename Net>
std::shared_ptr<Model> made(const ModelOptions& options) {
  return std::make_shared<Net>(options);
}
[[maybe_unused]] const bool models_added =
    model::models().add({"many", "for tests", made<Many>}) &&
    model::models().add({"one", "for tests", made<One>}) &&
    model::models().add({"undefined", "for tests", made<Undefined>});

class OfManyLayers : public ::testing::Test {
 protected:
  OfManyLayers() : recipe_(tiny_recipe(folder_)) {
    recipe_.model.name = "many";
    recipe_.train.shards = 4;
  }

  std::shared_ptr<const data::TrainingData> data() const {
    return data::load_training_data(recipe_.data, recipe_.train.batch, 1);
  }
  std::unique_ptr<fit::Meter> meter() const { return make_pass_meter(recipe_, data(), ""); }

  TemporaryFolder folder_;
  Recipe recipe_;
};

constexpr int64_t kPlenty = int64_t{1} << 30;

using PassMeter = OfManyLayers;

TEST_F(PassMeter, ThrowsModelErrorForPassesThatTheModelCannotCompute) {
  const auto meter = this->meter();
  const Range all = {0, 9};
  for (const Range layers : {all, Range{7, 9}})
    EXPECT_TRUE(has(
        message_of<ModelError>([&] { meter->measure({.layers = layers, .samples = 1}, kPlenty); }),
        "more than 1 value per channel"));
  EXPECT_THROW(meter->layer_costs({.layers = all, .samples = 1}), ModelError);
  EXPECT_TRUE(meter->measure({.layers = all, .samples = 2}, kPlenty).cost);
  EXPECT_EQ(meter->layer_costs({.layers = all, .samples = 2}).size(), 9);
}

TEST_F(PassMeter, MeasuresStagesWithoutALayerThatNeedsTooMuch) {
  const auto meter = this->meter();
  constexpr int64_t kSamples = 32;
  const int64_t wide = 2 * kSamples * 16 * 4;  // outputs of a layer, and their gradient
  EXPECT_FALSE(meter->measure({.layers = {0, 9}, .samples = kSamples}, wide).cost);
  EXPECT_FALSE(meter->measure({.layers = {1, 4}, .samples = kSamples}, wide).cost);
  EXPECT_TRUE(meter->measure({.layers = {8, 9}, .samples = kSamples}, wide).cost);
}

// A layer alone needs more than that: its outputs and their gradient stay until it has computed.
TEST_F(PassMeter, MeasuresAPassInExactlyTheRoomThatItNeeds) {
  const std::vector<float> x(40 * 28 * 28, 1);
  data::write_npy(folder_ / "x.npy", "<f4", "(40, 1, 28, 28)", std::as_bytes(std::span(x)));
  for (const char* model : {"convnet", "mlp", "resnet20"}) {
    recipe_.model.name = model;
    const auto meter = this->meter();
    const fit::Pass pass{.layers = {0, std::ssize(meter->model().layers)}, .samples = 16};
    const fit::MeasuredPass found = meter->measure(pass, kPlenty);
    ASSERT_TRUE(found.cost) << model;
    const int64_t room = found.cost->peak;
    EXPECT_TRUE(this->meter()->measure(pass, room).cost) << model;
    EXPECT_FALSE(this->meter()->measure(pass, room - 1).cost) << model;
  }
}

TEST_F(PassMeter, KnowsWhereAModelCanBeDividedAndThatSharedWeightsAreNotRecomputed) {
  const auto meter = this->meter();
  const fit::ModelFacts& model = meter->model();
  EXPECT_EQ(model.blocks, (std::vector<Range>{{0, 2}, {2, 4}, {4, 7}, {7, 9}}));
  EXPECT_EQ(model.undivided, "");
  EXPECT_TRUE(has(model.unrecomputed, "share parameter")) << model.unrecomputed;
  recipe_.model.name = "one";
  EXPECT_TRUE(has(this->meter()->model().undivided, "has one layer"));
}

TEST_F(PassMeter, MeasuresLayersThatPassUndefinedTensors) {
  recipe_.model.name = "undefined";
  const auto meter = this->meter();
  for (const Range layers : {Range{0, 1}, Range{1, 2}, Range{0, 2}})
    for (const bool recompute : {false, true})
      EXPECT_TRUE(
          meter->measure({.layers = layers, .samples = 4, .recompute = recompute}, kPlenty).cost);
  EXPECT_EQ(meter->layer_costs({.layers = {0, 2}, .samples = 4}).size(), 2);
}

TEST_F(PassMeter, RefusesDevicesOfAnotherKind) {
  expect_bad_input([&] { make_pass_meter(recipe_, data(), "virtual:4"); },
                   {"--devices virtual:4", "device.kind is cpu"});
}

using Division = OfManyLayers;

TEST_F(Division, IsBetweenBlocksThatTrainSomethingAndShareNothing) {
  recipe_.train.steps = 1;
  for (const int64_t stages : {2, 3, 4}) {
    recipe_.parallel.stages = stages;
    EXPECT_NO_THROW(train(recipe_, folder_ / std::to_string(stages)));
  }
  recipe_.parallel.stages = 5;
  expect_bad_input([&] { train(recipe_, folder_ / "5"); },
                   {"9 layers", "trained parameters", "share weights", "at most 4 parts"});
}

TEST_F(Division, OfStagesThatShareOneDeviceIsRefusedIfTheirSumDoesNotFit) {
  recipe_.train.steps = 1;
  recipe_.parallel.stages = 2;
  const auto samples = data();
  const auto objective = make_objective(recipe_, *samples->splits.test);
  const auto model = make_model(recipe_, *samples->splits.train, *objective);
  const auto shards = collective::Shards::even(shards_of(recipe_), 1);
  const int64_t needed = memory_needs(*model, recipe_, shards, 0).sum();
  recipe_.device.memory = std::to_string(needed - 1);
  const std::string message =
      message_of<OutOfMemory>([&] { train(recipe_, folder_ / "too-little"); });
  for (const char* part :
       {"cpu, which computes stage 0 (", ", stage 1 (", "before the first step", "--workers 2"})
    EXPECT_TRUE(has(message, part)) << message;
}

using MemoryFormulas = OfManyLayers;

// Of the pipeline that needs most, where each has equally many shards.
TEST_F(MemoryFormulas, AreThoseOfTraining) {
  const auto meter = this->meter();
  fit::Costs costs(*meter, kPlenty, [](const std::string&) {});
  const auto samples = data();
  for (const std::string optimizer : {"sgd", "adamw"})
    for (const std::string compress : {"none", "f16"})
      for (const bool zero : {false, true})
        for (const int pipelines : {1, 2, 3})
          for (const int64_t shards : {1, 2, 4, 8}) {
            recipe_.optimizer.name = optimizer;
            recipe_.train.compress = compress;
            recipe_.parallel.zero = zero;
            const auto objective = make_objective(recipe_, *samples->splits.test);
            const auto model = make_model(recipe_, *samples->splits.train, *objective);
            const auto all = collective::Shards::even(shards * pipelines, pipelines);
            MemoryNeeds most;
            for (int i = 0; i < pipelines; ++i)
              if (const MemoryNeeds needs = memory_needs(*model, recipe_, all, i);
                  needs.sum() > most.sum())
                most = needs;
            const fit::DeviceNeeds found =
                fit::predicted(
                    {.pipelines = pipelines, .shards = shards, .zero = zero, .samples_per_pass = 4},
                    {.recipe = recipe_, .limit = kPlenty}, costs)
                    .needs;
            EXPECT_EQ(found.parameters, most.parameters);
            EXPECT_EQ(found.gradients, most.gradients) << pipelines << " x " << shards;
            EXPECT_EQ(found.optimizer, most.optimizer);
          }
}

}  // namespace
}  // namespace lockstep::train
