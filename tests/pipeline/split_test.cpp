#include "pipeline/split.h"

#include <gtest/gtest.h>

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
  expect_bad_input([] { parse_split("3", kLayers, 3); }, {"makes 2 parts", "expected 2 for 3"});
  expect_bad_input([] { parse_split("1,2,3,4,5", kLayers, 6); },
                   {"5 layers cannot be divided into 6"});
}

TEST(Split, IsBalancedByTheCostOfTheDearestPart) {
  EXPECT_EQ(to_text(balanced_split({1, 1, 1, 1}, 2)), "2");
  EXPECT_EQ(to_text(balanced_split({4, 1, 1, 1, 1}, 2)), "1");
  EXPECT_EQ(to_text(balanced_split({1, 1, 1, 1, 4}, 2)), "4");
  EXPECT_EQ(to_text(balanced_split({1, 2, 3, 4, 5}, 3)), "3,4");
  EXPECT_EQ(to_text(balanced_split({0, 0, 0}, 3)), "1,2");
  expect_bad_input([] { balanced_split({1, 1}, 3); }, {"at most 2 stages"});
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

}  // namespace
}  // namespace lockstep::pipeline
