#include "fit/ways.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/model_error.h"
#include "expect_error.h"
#include "fit/memory_needs.h"

namespace lockstep::fit {
namespace {

constexpr int64_t kLayerState = 1000;
constexpr int64_t kPerSample = 100;  ///< bytes of a layer's activations
constexpr int64_t kScratch = 50;     ///< of a pass, besides

// Four equal layers, of which each costs what can be computed by hand.
class ExactMeter final : public Meter {
 public:
  explicit ExactMeter(int layers = 4) {
    for (int i = 0; i < layers; ++i) {
      model_.layers.push_back(
          {.name = "layer" + std::to_string(i), .state = kLayerState, .trained = kLayerState});
      model_.blocks.push_back({i, i + 1});
    }
    if (layers == 1) model_.undivided = model_.unrecomputed = "it has one layer";
  }

  const ModelFacts& model() const override { return model_; }
  MeasuredPass measure(const Pass& pass, int64_t room) override {
    ++measured_[{pass.samples, pass.precision}];
    const bool is_half = pass.precision == "bf16";
    if (is_half && !bf16_times_) throw ModelError("no such operator");
    if (pass.samples < fewest_) throw ModelError("expected more samples");
    const double slower = is_half ? *bf16_times_ : 1;
    const int64_t per_sample = pass.layers.size() * kPerSample * pass.samples / (is_half ? 2 : 1);
    const int64_t held = pass.recompute ? per_sample / 4 : per_sample;
    const double seconds = 1e-3 * slower * static_cast<double>(per_sample);
    const PassCost cost{.peak = (pass.recompute ? recomputed_ : 0) + held + kScratch,
                        .held = held,
                        .sent = pass.samples * kPerSample,
                        .forward = seconds,
                        .backward = (pass.recompute ? 3 : 2) * seconds,
                        .waited = waited_ * 3 * seconds};
    if (cost.peak > room) return {{}, room};
    return {cost, room};
  }
  std::vector<pipeline::LayerCost> layer_costs(const Pass& pass) override {
    if (pass.samples < fewest_) throw ModelError("expected more samples");
    const int64_t held = kPerSample * pass.samples / (pass.recompute ? 4 : 1);
    return std::vector<pipeline::LayerCost>(model_.layers.size(),
                                            {.seconds = 1.0, .held = held, .working = kScratch});
  }
  double update_seconds(int64_t bytes) override { return 1e-9 * static_cast<double>(bytes); }

  /// How many times as long as with fp32 a byte takes; nothing: it has no bf16.
  void set_bf16_times(std::optional<double> times) { bf16_times_ = times; }
  /// The model throws for passes of fewer samples.
  void set_fewest(int64_t samples) { fewest_ = samples; }
  /// What a pass needs more when layers are computed again.
  void set_recomputed(int64_t bytes) { recomputed_ = bytes; }
  /// For which part of a pass it had no processor.
  void set_waited(double part) { waited_ = part; }
  void set_blocks(std::vector<Range> blocks) { model_.blocks = std::move(blocks); }
  /// By samples and precision.
  const std::map<std::pair<int64_t, std::string>, int>& measured() const { return measured_; }

 private:
  ModelFacts model_;
  int64_t fewest_ = 1;
  int64_t recomputed_ = 0;
  double waited_ = 0;
  std::map<std::pair<int64_t, std::string>, int> measured_;
  std::optional<double> bf16_times_ = 2;
};

// What four layers have before any pass: parameters, gradients, one state of the optimizer.
constexpr int64_t kFixed = 4 * 3 * kLayerState;

Question question(int64_t limit, int64_t batch) {
  Question asked{.limit = limit};
  asked.recipe.train.batch = batch;
  asked.recipe.train.shards = 1;
  asked.recipe.device.kind = "virtual";  // whose messages are not in its memory
  asked.network.bytes_per_second = 1e12;
  asked.network.latency = 1e-9;
  return asked;
}

struct Found : FoundWays {
  const Way* named(const std::string& name) const {
    const auto found = std::ranges::find_if(ways, [&](const Way& w) { return w.name() == name; });
    return found == ways.end() ? nullptr : &*found;
  }
};

Found found(const Question& asked, Meter& meter) {
  Costs costs(meter, asked.limit, [](const std::string&) {});
  return {find_ways(asked, costs)};
}

TEST(Ways, NeedADeviceForEverySampleWhereADeviceTakesOne) {
  ExactMeter meter;
  const int64_t one_sample = kFixed + 4 * kPerSample + kScratch;
  const Found all = found(question(one_sample, 32), meter);
  const Way* const plain = all.named("data parallel");
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(plain->devices(), 32);
  EXPECT_TRUE(plain->fits);
  EXPECT_EQ(plain->needs.sum(), one_sample);
  EXPECT_EQ(plain->flags(question(one_sample, 32).recipe),
            (std::vector<std::string>{"--batch", "32", "--shards", "32", "--workers", "32"}));
}

TEST(Ways, AccumulateInTheMemoryOfOnePiece) {
  ExactMeter meter;
  const int64_t two_samples = kFixed + 8 * kPerSample + kScratch;
  const Found all = found(question(two_samples, 32), meter);
  const Way* const pieces = all.named("accumulate");
  ASSERT_NE(pieces, nullptr);
  EXPECT_EQ(pieces->devices(), 1);
  EXPECT_EQ(pieces->accumulate, 16);
  EXPECT_EQ(pieces->needs.sum(), two_samples);
  EXPECT_NEAR(pieces->seconds_per_step, 16 * 3e-3 * 800, 1e-3);
}

TEST(Ways, WithStagesHoldWhatIsInFlight) {
  ExactMeter meter;
  Question asked = question(1 << 20, 8);
  Costs costs(meter, asked.limit, [](const std::string&) {});
  const Way two = predicted({.stages = 2, .accumulate = 4, .samples_per_pass = 2}, asked, costs);
  // The first of two stages has two micro-batches in flight: one of 2 samples through 2 layers is
  // held while another is computed.
  EXPECT_EQ(two.needs.activations, (2 * 2 * kPerSample + kScratch) + 2 * 2 * kPerSample);
  EXPECT_EQ(two.needs.parameters, 2 * kLayerState);
  EXPECT_EQ(two.split, (std::vector<Range>{{0, 2}, {2, 4}}));
  // (S-1+M) slots of a stage's forward and backward pass.
  EXPECT_NEAR(two.seconds_per_step, 5 * 3e-3 * 400, 1e-3);
}

TEST(Ways, WithStagesKeepTheGradientsOfInputsThatWereSentLast) {
  ExactMeter meter;
  Question asked = question(1 << 20, 8);
  Costs costs(meter, asked.limit, [](const std::string&) {});
  // One layer and three: the second stage needs most.
  const std::vector<Range> split = {{0, 1}, {1, 4}};
  const Way once = predicted({.stages = 2, .split = split, .samples_per_pass = 8}, asked, costs);
  EXPECT_EQ(once.needs.activations, 3 * 8 * kPerSample + kScratch);
  const Way pieces = predicted(
      {.stages = 2, .accumulate = 4, .split = split, .samples_per_pass = 2}, asked, costs);
  EXPECT_EQ(pieces.needs.activations, 3 * 2 * kPerSample + kScratch + 2 * kPerSample);
}

TEST(Ways, WithStagesHaveHeadersOfMessagesInTheMemoryOfCpus) {
  ExactMeter meter;
  Question asked = question(1 << 20, 8);
  Costs costs(meter, asked.limit, [](const std::string&) {});
  const Way way{.stages = 2, .accumulate = 4, .samples_per_pass = 2};
  const int64_t on_device = predicted(way, asked, costs).needs.activations;
  asked.recipe.device.kind = "cpu";
  // Of two micro-batches in flight, and of one message in either direction.
  EXPECT_EQ(predicted(way, asked, costs).needs.activations, on_device + 4 * 1024);
}

TEST(Ways, WithStagesAreSplitSoThatTheyFit) {
  ExactMeter meter(8);
  Question asked = question(1 << 20, 128);
  Costs costs(meter, asked.limit, [](const std::string&) {});
  const Way way{.stages = 2, .accumulate = 4, .samples_per_pass = 32};
  const Way balanced = predicted(way, asked, costs);
  EXPECT_EQ(balanced.split, (std::vector<Range>{{0, 4}, {4, 8}}));
  // The first stage has two micro-batches in flight, and needs more than the second one.
  asked.limit = balanced.needs.sum() - 1;
  const Way fitted = predicted(way, asked, costs);
  EXPECT_EQ(fitted.split, (std::vector<Range>{{0, 3}, {3, 8}}));
  EXPECT_TRUE(fitted.fits);
}

TEST(Ways, WithAScheduleHoldWhatThatHasInFlight) {
  ExactMeter meter;
  Question asked = question(1 << 20, 8);
  Costs costs(meter, asked.limit, [](const std::string&) {});
  const Way all = predicted(
      {.stages = 2, .accumulate = 4, .schedule = "gpipe", .samples_per_pass = 2}, asked, costs);
  EXPECT_EQ(all.needs.activations,
            (2 * 2 * kPerSample + kScratch) + 3 * 2 * 2 * kPerSample + 2 * kPerSample);
}

TEST(Ways, WithStagesHaveSmallPassesIfOnlyTheseFit) {
  ExactMeter meter;
  // Of two stages, the first has two layers and two micro-batches of one sample in flight.
  const int64_t limit = 2 * (3 + 6) * kLayerState + 2 * 2 * kPerSample + kScratch;
  Question asked = question(limit, 64);
  asked.most_devices = 2;
  const Found all = found(asked, meter);
  const Way* const stages = all.named("pipeline");
  ASSERT_NE(stages, nullptr);
  EXPECT_TRUE(stages->fits);
}

TEST(Ways, TryEveryNumberOfStagesAndOneMicroBatchInFlightWhereNothingElseFits) {
  ExactMeter meter(6);
  // Three stages of two layers, with three micro-batches in flight, and with one.
  const int64_t state = 2 * 3 * kLayerState, held = 2 * kPerSample;
  const auto smallest = [&](int64_t limit) {
    Question asked = question(limit, 64);
    asked.most_devices = 3;
    const Found all = found(asked, meter);
    const auto fits = std::ranges::find_if(all.ways, &Way::fits);
    return fits == all.ways.end() ? Way{} : *fits;
  };
  EXPECT_EQ(smallest(state + 3 * held + kScratch).stages, 3);
  const Way one = smallest(state + held / 4 + kScratch + kPerSample);
  EXPECT_EQ(one.stages, 3);
  EXPECT_TRUE(one.fits);
}

TEST(Ways, HaveAtMostAsManyDevicesAsAreAllowed) {
  ExactMeter meter;
  for (const int64_t limit : {int64_t{1} << 20, kFixed + 4 * kPerSample + kScratch}) {
    Question asked = question(limit, 32);
    asked.most_devices = 3;
    for (const Way& way : found(asked, meter).ways) EXPECT_LE(way.devices(), 3) << way.name();
  }
}

TEST(Ways, AreUnknownWhereNotEvenOneSampleCanBeMeasured) {
  ExactMeter meter(1);
  const Question asked = question(kPerSample / 2, 8);
  for (const Way& way : found(asked, meter).ways) {
    EXPECT_FALSE(way.known) << way.name();
    EXPECT_FALSE(way.fits) << way.name();
  }
}

TEST(Ways, DivideABatchThatIsAPrimeNumberIntoSingleSamples) {
  ExactMeter meter;
  for (const Way& way : found(question(1 << 20, 97), meter).ways)
    if (way.stages > 1) EXPECT_EQ(way.accumulate, 97) << way.name();
}

TEST(Ways, NameWhatTheRecipeHasAndTheyDoNot) {
  Recipe recipe = question(0, 32).recipe;
  recipe.train.accumulate = 4;
  recipe.parallel = {.stages = 2,
                     .parts_per_stage = 1,
                     .schedule = "gpipe",
                     .split = "1",
                     .recompute = true,
                     .zero = true};
  EXPECT_EQ(
      Way{}.flags(recipe),
      (std::vector<std::string>{"--batch", "32", "--shards", "1", "--accumulate", "1", "--stages",
                                "1", "--split", "", "--set", "parallel.parts_per_stage=0", "--set",
                                "parallel.recompute=false", "--set", "parallel.zero=false"}));
  const Way stages{.stages = 2, .split = {{0, 3}, {3, 4}}};
  EXPECT_EQ(stages.flags(recipe),
            (std::vector<std::string>{"--batch",      "32",
                                      "--shards",     "1",
                                      "--accumulate", "1",
                                      "--workers",    "2",
                                      "--stages",     "2",
                                      "--schedule",   "1f1b",
                                      "--split",      "3",
                                      "--set",        "parallel.parts_per_stage=0",
                                      "--set",        "parallel.recompute=false",
                                      "--set",        "parallel.zero=false"}));
}

TEST(Ways, WithZeroDivideTheOptimizersState) {
  ExactMeter meter;
  Question asked = question(1 << 20, 8);
  Costs costs(meter, asked.limit, [](const std::string&) {});
  const Way way = predicted({.pipelines = 4, .zero = true, .samples_per_pass = 2}, asked, costs);
  EXPECT_EQ(way.needs.optimizer, 4 * kLayerState / 4);
  EXPECT_EQ(way.needs.gradients, 4 * kLayerState);
}

TEST(Ways, LeaveOutZeroForAnOptimizerThatIsNotElementwise) {
  ExactMeter meter;
  Question asked = question(1 << 20, 8);
  asked.recipe.optimizer.name = "lars";
  const Found all = found(asked, meter);
  for (const Way& way : all.ways) EXPECT_FALSE(way.zero) << way.name();
  EXPECT_EQ(all.left_out.size(), 1);
  EXPECT_TRUE(has(all.left_out.back(), "No ZeRO: lars")) << all.left_out.back();
}

TEST(Ways, SayThatABatchCannotBeDividedAmongSoFewDevices) {
  ExactMeter meter;
  Question asked = question(1 << 20, 31);
  asked.most_devices = 4;
  const Found all = found(asked, meter);
  ASSERT_EQ(all.left_out.size(), 1);
  EXPECT_EQ(all.left_out.front(),
            "No data parallelism: a batch of 31 cannot be divided into equal parts for 2 to 4 "
            "devices; one of 32 can");
}

TEST(Ways, LeaveOutRecomputationThatNeedsMoreThanKeeping) {
  ExactMeter meter;
  meter.set_recomputed(int64_t{1} << 16);
  const Found all = found(question(1 << 20, 8), meter);
  for (const Way& way : all.ways) EXPECT_FALSE(way.recompute) << way.name();
  ASSERT_EQ(all.left_out.size(), 1);
  EXPECT_TRUE(has(all.left_out.front(), "No recomputation")) << all.left_out.front();
}

TEST(Ways, HaveRoughTimesWhereOtherProgramsHadTheProcessor) {
  for (const double waited : {0.05, 0.5}) {
    ExactMeter meter;
    meter.set_waited(waited);
    Costs costs(meter, 1 << 20, [](const std::string&) {});
    find_ways(question(1 << 20, 8), costs);
    EXPECT_EQ(costs.times_are_rough(), waited > 0.1);
  }
}

TEST(Ways, LeaveOutStagesAndRecomputationForAModelWithoutLayers) {
  ExactMeter meter(1);
  for (const Way& way : found(question(1 << 20, 8), meter).ways) {
    EXPECT_EQ(way.stages, 1) << way.name();
    EXPECT_FALSE(way.recompute) << way.name();
  }
}

TEST(Ways, RecomputeWhereThatAloneMakesTheBatchFit) {
  ExactMeter meter;
  const int64_t limit = kFixed + 4 * kPerSample * 8 / 4 + kScratch;
  const Found all = found(question(limit, 8), meter);
  const Way* const again = all.named("recompute");
  ASSERT_NE(again, nullptr);
  EXPECT_TRUE(again->fits);
  EXPECT_EQ(again->needs.sum(), limit);
}

TEST(Ways, InLowerPrecisionTakeMoreSamplesAtOnce) {
  ExactMeter meter;
  const int64_t limit = kFixed + 4 * kPerSample * 4 + kScratch;
  const Found all = found(question(limit, 8), meter);
  const Way* const half = all.named("bf16");
  ASSERT_NE(half, nullptr);
  EXPECT_TRUE(half->fits);
  EXPECT_EQ(half->samples_per_pass, 8);
  EXPECT_EQ(half->needs.sum(), limit);
  EXPECT_EQ(half->flags(question(limit, 8).recipe),
            (std::vector<std::string>{"--batch", "8", "--shards", "1", "--precision", "bf16"}));
  EXPECT_NE(all.named("data parallel"), nullptr);
}

TEST(Ways, LeaveOutAPrecisionThatIsSlowOrNotThere) {
  for (const std::optional<double> times : {std::optional<double>(20), std::optional<double>()}) {
    ExactMeter meter;
    meter.set_bf16_times(times);
    const Found all = found(question(1 << 20, 8), meter);
    for (const Way& way : all.ways) EXPECT_EQ(way.precision, "fp32") << way.name();
    EXPECT_EQ(all.left_out, std::vector<std::string>{times ? "bf16 is left out: its passes take 10 "
                                                             "times as long"
                                                           : "bf16 is left out: no such operator"});
  }
}

TEST(Ways, InLowerPrecisionAreFoundWhereNothingElseFits) {
  ExactMeter meter(1);
  const int64_t limit = 3 * kLayerState + kPerSample / 2 + kScratch;
  const Way* const half = found(question(limit, 4), meter).named("accumulate + bf16");
  ASSERT_NE(half, nullptr);
  EXPECT_TRUE(half->fits);
}

TEST(Ways, WithFewerSamplesThanTheModelComputesAreLeftOut) {
  for (const int64_t limit : {int64_t{1} << 20, kFixed + 4 * kPerSample * 4 + kScratch}) {
    ExactMeter meter;
    meter.set_fewest(2);
    const Found all = found(question(limit, 16), meter);
    EXPECT_TRUE(std::ranges::any_of(all.ways, &Way::fits));
    for (const Way& way : all.ways) EXPECT_GE(way.samples_per_pass, 2) << way.name();
    EXPECT_EQ(all.left_out.size(), 1) << limit;
    EXPECT_TRUE(has(all.left_out.front(), "so many samples are left out: 1. expected more samples"))
        << all.left_out.front();
  }
}

TEST(Ways, OfStagesHaveTheSmallestPassesThatTheModelComputesWhereNothingElseFits) {
  ExactMeter meter(6);
  meter.set_fewest(2);
  // Three stages of two layers, with one micro-batch of two samples in flight.
  Question asked = question(2 * 3 * kLayerState + kPerSample + kScratch + 2 * kPerSample, 64);
  asked.most_devices = 3;
  const Found all = found(asked, meter);
  const auto fits = std::ranges::find_if(all.ways, &Way::fits);
  ASSERT_NE(fits, all.ways.end());
  EXPECT_EQ(fits->samples_per_pass, 2);
}

TEST(Ways, OfAModelThatComputesNoneThrowWhatItThrows) {
  ExactMeter meter;
  meter.set_fewest(100);
  EXPECT_EQ(message_of<ModelError>([&] { found(question(1 << 20, 8), meter); }),
            "expected more samples");
}

TEST(Ways, AreDividedBetweenBlocksOnly) {
  ExactMeter meter(6);
  meter.set_blocks({{0, 5}, {5, 6}});
  Question asked = question(1 << 20, 8);
  const Found all = found(asked, meter);
  EXPECT_NE(all.named("pipeline"), nullptr);
  for (const Way& way : all.ways) {
    EXPECT_LE(way.stages, 2);
    if (way.stages > 1) EXPECT_EQ(way.split, (std::vector<Range>{{0, 5}, {5, 6}})) << way.name();
  }
}

TEST(Ways, OnOneDeviceHaveTheSumOfTheirStages) {
  ExactMeter meter;
  Question asked = question(1 << 20, 8);
  Costs costs(meter, asked.limit, [](const std::string&) {});
  const Way way = predicted({.stages = 2,
                             .accumulate = 4,
                             .place = StagePlace::one_device,
                             .split = {{0, 1}, {1, 4}},
                             .samples_per_pass = 2},
                            asked, costs);
  EXPECT_EQ(way.needs.parameters + way.needs.gradients + way.needs.optimizer, kFixed);
  // Two micro-batches in the first stage, one of them also in the second, whose inputs the first
  // one holds.
  const int64_t layer = 2 * kPerSample;
  EXPECT_EQ(way.needs.activations, 2 * layer + 2 * layer + kScratch);
}

TEST(Ways, WithNarrowGradientsExchangeHalfOfTheBytes) {
  ExactMeter meter;
  Question asked = question(1 << 20, 8);
  asked.network = {.latency = 0, .bytes_per_second = 1};
  Costs costs(meter, asked.limit, [](const std::string&) {});
  const Way way{.pipelines = 2, .samples_per_pass = 4};
  const double wide = predicted(way, asked, costs).seconds_per_step;
  asked.recipe.train.compress = "f16";
  const double narrow = predicted(way, asked, costs).seconds_per_step;
  EXPECT_NEAR(wide - narrow, 4 * kLayerState / 2, 1);
}

TEST(Ways, KeepTheRecipesPrecision) {
  ExactMeter meter;
  Question asked = question(1 << 20, 8);
  asked.recipe.train.precision = "bf16";
  for (const Way& way : found(asked, meter).ways) EXPECT_EQ(way.precision, "bf16") << way.name();
}

TEST(Ways, ThatFitComeFirstAndTheFastestFirst) {
  ExactMeter meter;
  const Found all = found(question(kFixed + 4 * kPerSample + kScratch, 32), meter);
  EXPECT_TRUE(std::ranges::is_sorted(
      all.ways, {}, [](const Way& way) { return std::tuple(!way.fits, way.seconds_per_step); }));
  const Way* const at_once = all.named("one device");
  ASSERT_NE(at_once, nullptr);
  EXPECT_FALSE(at_once->fits);
}

TEST(Ways, ComputeAPassThatDoesNotFitFromSmallerOnes) {
  ExactMeter meter;
  const Found all = found(question(kFixed + 4 * kPerSample * 4, 64), meter);
  const Way* const at_once = all.named("one device");
  ASSERT_NE(at_once, nullptr);
  EXPECT_FALSE(at_once->measured);
  EXPECT_EQ(at_once->needs.sum(), kFixed + 4 * kPerSample * 64 + kScratch);
}

TEST(Ways, MeasureEveryPassOnce) {
  ExactMeter meter(1);
  found(question(1 << 20, 16), meter);
  for (const auto& [pass, times] : meter.measured()) EXPECT_EQ(times, 1) << pass.first;
}

TEST(LargestBatch, FitsAndOneMoreDoesNot) {
  for (const int64_t samples : {1, 2, 7, 100}) {
    ExactMeter meter;
    const Question asked = question(kFixed + 4 * kPerSample * samples + kScratch + 7, 8);
    Costs costs(meter, asked.limit, [](const std::string&) {});
    const LargestBatch largest = largest_batch({}, 1, asked, costs, 1000);
    EXPECT_EQ(largest.batch, samples);
    EXPECT_EQ(largest.needs.sum(), asked.limit - 7);
    EXPECT_FALSE(largest.is_all_samples);
  }
}

TEST(LargestBatch, IsOfAllWorkersAndPasses) {
  ExactMeter meter;
  // A worker's two shards need a second copy of the gradients.
  const Question asked = question(kFixed + 4 * kLayerState + 4 * kPerSample * 5 + kScratch, 8);
  Costs costs(meter, asked.limit, [](const std::string&) {});
  const Way way{.pipelines = 3, .shards = 2, .accumulate = 4};
  EXPECT_EQ(largest_batch(way, 3 * 2 * 4, asked, costs, 1000).batch, 3 * 2 * 4 * 5);
  // Five shards on three workers: one of them has only one.
  EXPECT_EQ(largest_batch(way, 5 * 4, asked, costs, 1000).batch, 5 * 4 * 5);
}

TEST(LargestBatch, IsNothingWhereParametersDoNotFit) {
  ExactMeter meter;
  const Question asked = question(kFixed, 8);
  Costs costs(meter, asked.limit, [](const std::string&) {});
  EXPECT_EQ(largest_batch({}, 1, asked, costs, 1000).batch, 0);
}

TEST(LargestBatch, IsFoundWhereTheModelComputesNoFewSamples) {
  ExactMeter meter;
  meter.set_fewest(3);
  const Question asked = question(kFixed + 4 * kPerSample * 9 + kScratch, 8);
  Costs costs(meter, asked.limit, [](const std::string&) {});
  EXPECT_EQ(largest_batch({}, 1, asked, costs, 1000).batch, 9);
  EXPECT_EQ(largest_batch({}, 1, asked, costs, 3).batch, 3);
  EXPECT_THROW(largest_batch({}, 1, asked, costs, 2), ModelError);
}

TEST(LargestBatch, IsAtMostWhatThereIs) {
  ExactMeter meter;
  const Question asked = question(1 << 30, 8);
  Costs costs(meter, asked.limit, [](const std::string&) {});
  const LargestBatch largest = largest_batch({}, 1, asked, costs, 300);
  EXPECT_EQ(largest.batch, 300);
  EXPECT_TRUE(largest.is_all_samples);
}

}  // namespace
}  // namespace lockstep::fit
