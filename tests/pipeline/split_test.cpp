#include "pipeline/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "expect_error.h"
#include "lockstep/error.h"

namespace lockstep::pipeline {
namespace {

const std::vector<std::string> kLayers = {"conv1", "layer1.0", "layer1.1", "layer2.0", "fc"};

TEST(Split, IsListedByTheLayersWithWhichPartsBegin) {
  const std::vector<Range> expected = {{0, 2}, {2, 3}, {3, 5}};
  EXPECT_EQ(parse_split("2,3", kLayers, 3), expected);
  EXPECT_EQ(parse_split("layer1.1,layer2.0", kLayers, 3), expected);
  EXPECT_EQ(to_text(expected), "2,3");
  EXPECT_EQ(parse_split("", kLayers, 1), (std::vector<Range>{{0, 5}}));
}

TEST(Split, ThatLeavesAPartEmptyOrNamesNoLayerIsRefused) {
  expect_bad_input([] { parse_split("0", kLayers, 2); }, {"part 0 would have no layers"});
  expect_bad_input([] { parse_split("3,3", kLayers, 3); }, {"part 1 would have no layers"});
  expect_bad_input([] { parse_split("3,2", kLayers, 3); }, {"list layers in the model's order"});
  expect_bad_input([] { parse_split("5", kLayers, 2); }, {"'5' is no layer", "4 fc"});
  expect_bad_input([] { parse_split("-1", kLayers, 2); }, {"'-1' is no layer"});
  expect_bad_input([] { parse_split("layer2", kLayers, 2); }, {"did you mean 'layer2.0'"});
  expect_bad_input([] { parse_split("3", kLayers, 3); }, {"split 3: names 1 layer", "makes 2 parts",
                                                          "into 3 (--stages)", "name 2 layers"});
  expect_bad_input([] { parse_split("fc", kLayers, 1); },
                   {"--split fc: names 1 layer", "not divided", "set --stages = 2"});
  expect_bad_input([] { parse_split("x", {"0", "1"}, 2, {}, {"0 (Linear)", "1 (ReLU)"}); },
                   {"there are: 0 (Linear), 1 (ReLU)"});
  expect_bad_input([] { parse_split("1,2,3,4,5", kLayers, 6); },
                   {"5 layers cannot be divided into 6"});
}

TEST(Split, IntoTooManyPartsSaysAtOnceHowManyAreTheMost) {
  for (const int parts : {3, 5})
    expect_bad_input([&] { require_enough_blocks({{0, 2}, {2, 4}}, parts); },
                     {"4 layers", "at most 2 parts"});
}

TEST(Split, IsBalancedByTheCostOfTheDearestPart) {
  EXPECT_EQ(to_text(balanced_split({1, 1, 1, 1}, 2)), "2");
  EXPECT_EQ(to_text(balanced_split({4, 1, 1, 1, 1}, 2)), "1");
  EXPECT_EQ(to_text(balanced_split({1, 1, 1, 1, 4}, 2)), "4");
  EXPECT_EQ(to_text(balanced_split({1, 2, 3, 4, 5}, 3)), "3,4");
  EXPECT_EQ(to_text(balanced_split({0, 0, 0}, 3)), "1,2");
  expect_bad_input([] { balanced_split({1, 1}, 3); }, {"at most 2 parts"});
}

// Against every possible division.
TEST(Split, ThatIsBalancedIsTheBestOfAll) {
  const std::vector<double> costs = {3, 1, 4, 1, 5, 9, 2, 6};
  const auto dearest = [&](const std::vector<Range>& split) {
    double most = 0;
    for (const Range& part : split) {
      double sum = 0;
      for (int64_t i = part.begin; i < part.end; ++i) sum += costs[static_cast<size_t>(i)];
      most = std::max(most, sum);
    }
    return most;
  };
  double best = 1e9;
  for (int64_t a = 1; a < 7; ++a)
    for (int64_t b = a + 1; b < 8; ++b) best = std::min(best, dearest({{0, a}, {a, b}, {b, 8}}));
  EXPECT_EQ(dearest(balanced_split(costs, 3)), best);
}

PipelineSchedule schedule_of(const std::string& name, int stages, int micro_batches,
                             int parts_per_stage = 1) {
  return make_schedule(pipeline_schedules().at(name), {stages, parts_per_stage, micro_batches});
}

// Layers that differ in everything, without a pattern.
std::vector<LayerCost> various_layers(int count) {
  std::vector<LayerCost> layers;
  for (int i = 0; i < count; ++i)
    layers.push_back({.seconds = 1.0 + i * 5 % 7,
                      .state = 10 + i * 31 % 17,
                      .inputs = 2 + i % 3,
                      .held = 3 + i * 13 % 11,
                      .working = i * 3 % 5});
  return layers;
}

// The second stage keeps the gradients of its inputs that it sent, until it sends the next ones.
TEST(Split, NeedsTheStateOfItsLayersAndWhatIsInFlight) {
  const std::vector<LayerCost> layers = {{.state = 100, .inputs = 1, .held = 10, .working = 3},
                                         {.state = 200, .inputs = 2, .held = 20, .working = 5},
                                         {.state = 400, .inputs = 4, .held = 40, .working = 4}};
  const std::vector<Range> split = {{0, 2}, {2, 3}};
  using Bytes = std::vector<int64_t>;
  EXPECT_EQ(bytes_of_stages(layers, split, schedule_of("gpipe", 2, 8)),
            (Bytes{300 + 8 * 31 + 5, 400 + 8 * 44 + 4 + 4}));
  EXPECT_EQ(bytes_of_stages(layers, split, schedule_of("1f1b", 2, 8)),
            (Bytes{300 + 2 * 31 + 5, 400 + 44 + 4 + 4}));
  EXPECT_EQ(bytes_of_stages(layers, split, schedule_of("1f1b", 2, 1)),
            (Bytes{300 + 31 + 5, 400 + 44 + 4}));
  // Both parts are on one stage; their inputs are held, too.
  EXPECT_EQ(bytes_of_stages(layers, split, schedule_of("interleaved", 1, 1, 2)),
            (Bytes{700 + 31 + 44 + 5}));
}

TEST(Split, ThatFitsIsTheFastestOfAllThatDo) {
  const std::vector<LayerCost> layers = various_layers(9);
  const auto slowest = [&](const std::vector<Range>& split) {
    double most = 0;
    for (const Range& part : split) {
      double sum = 0;
      for (int64_t i = part.begin; i < part.end; ++i) sum += layers[static_cast<size_t>(i)].seconds;
      most = std::max(most, sum);
    }
    return most;
  };
  int fitted = 0, slower = 0;
  for (const std::string name : {"gpipe", "1f1b"}) {
    const PipelineSchedule schedule = schedule_of(name, 3, 4);
    const double balanced = slowest(fitted_split(layers, schedule, 0).split);
    for (int64_t limit = 60; limit < 300; limit += 3) {
      double best = 1e9;
      for (int64_t a = 1; a < 8; ++a)
        for (int64_t b = a + 1; b < 9; ++b) {
          const std::vector<Range> split = {{0, a}, {a, b}, {b, 9}};
          if (std::ranges::max(bytes_of_stages(layers, split, schedule)) <= limit)
            best = std::min(best, slowest(split));
        }
      const FittedSplit found = fitted_split(layers, schedule, limit);
      EXPECT_EQ(found.fits, best < 1e9) << name << " " << limit;
      if (!found.fits) continue;
      EXPECT_EQ(slowest(found.split), best) << name << " " << limit;
      ++fitted;
      if (best > balanced) ++slower;
    }
  }
  EXPECT_GT(fitted, slower);
  EXPECT_GT(slower, 0);  // memory did decide
}

TEST(Split, OfWhichNoneFitsIsTheOneThatNeedsLeastAndMoreStagesWouldDo) {
  const std::vector<LayerCost> layers(6, {.seconds = 1, .state = 100, .held = 10});
  const PipelineScheduleRow& row = pipeline_schedules().at("1f1b");
  const FittedSplit two = fitted_split(layers, schedule_of("1f1b", 2, 4), 250);
  EXPECT_FALSE(two.fits);
  EXPECT_EQ(to_text(two.split), "3");
  // The first of three stages has three micro-batches in flight: 200 + 3 * 20.
  EXPECT_FALSE(fitted_split(layers, schedule_of("1f1b", 3, 4), 250).fits);
  EXPECT_EQ(stages_that_fit(layers, row, {2, 1, 4}, 260), 3);
  EXPECT_EQ(stages_that_fit(layers, row, {2, 1, 4}, 250), 4);
  EXPECT_EQ(stages_that_fit(layers, row, {2, 1, 4}, 1000), 1);
  EXPECT_EQ(stages_that_fit(layers, row, {2, 1, 4}, 100), std::nullopt);
}

TEST(Split, OfBlocksIsThatOfTheirLayersTogether) {
  const std::vector<LayerCost> layers = various_layers(9);
  const std::vector<Range> blocks = {{0, 2}, {2, 3}, {3, 6}, {6, 9}};
  const PipelineScheduleRow& row = pipeline_schedules().at("1f1b");
  const PipelineSchedule schedule = schedule_of("1f1b", 3, 4);
  for (int64_t limit = 60; limit < 300; limit += 20) {
    bool some_fits = false;
    for (const auto& [second, third] : {std::pair{2, 3}, {2, 6}, {3, 6}})
      some_fits |= std::ranges::max(bytes_of_stages(
                       layers, {{0, second}, {second, third}, {third, 9}}, schedule)) <= limit;
    const FittedSplit found = fitted_split(layers, schedule, limit, blocks);
    EXPECT_EQ(found.fits, some_fits) << limit;
    EXPECT_TRUE(std::set<std::string>({"2,3", "2,6", "3,6"}).contains(to_text(found.split)));
  }
  EXPECT_EQ(stages_that_fit(layers, row, {2, 1, 4}, 1, blocks), std::nullopt);
  EXPECT_THROW(fitted_split(layers, schedule_of("1f1b", 5, 4), 0, blocks), BadInput);
}

TEST(Split, OfInterleavedPartsFitsIfItsStagesDo) {
  const std::vector<LayerCost> layers = various_layers(12);
  const PipelineSchedule schedule = schedule_of("interleaved", 2, 4, 2);
  int fitted = 0;
  for (int64_t limit = 100; limit < 600; limit += 10) {
    const FittedSplit found = fitted_split(layers, schedule, limit);
    const auto most = std::ranges::max(bytes_of_stages(layers, found.split, schedule));
    EXPECT_EQ(found.fits, most <= limit) << limit;
    fitted += found.fits ? 1 : 0;
  }
  EXPECT_GT(fitted, 0);
}

}  // namespace
}  // namespace lockstep::pipeline
