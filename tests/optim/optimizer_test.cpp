#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "base/digest.h"
#include "expect_error.h"
#include "lockstep/error.h"

namespace lockstep::optim {
namespace {

// Three updates with the gradient g = w, from w = 1, on memory of one number.
float after_three_updates(const OptimizerOptions& options, bool decays = true) {
  const auto optimizer = make_optimizer(options, {{0, 1, decays}});
  std::vector<float> w = {1};
  for (int64_t update = 1; update <= 3; ++update) {
    const std::vector<float> gradient = w;
    optimizer->step(w, gradient, options.lr, update);
  }
  return w[0];
}

// Expected values are PyTorch 1.13's, computed by hand from its formulas.
TEST(Sgd, WithMomentumAccumulatesVelocity) {
  // v: 1, 1.8, 2.34;  w: 1 -> 0.9 -> 0.72 -> 0.486
  EXPECT_NEAR(after_three_updates({.lr = 0.1, .momentum = 0.9}), 0.486, 1e-6);
}

TEST(Sgd, NesterovLooksAheadAlongTheVelocity) {
  double w = 1, v = 0;
  for (int i = 0; i < 3; ++i) {
    v = 0.9 * v + w;
    w -= 0.1 * (w + 0.9 * v);
  }
  EXPECT_NEAR(after_three_updates({.lr = 0.1, .momentum = 0.9, .nesterov = true}), w, 1e-6);
}

TEST(Sgd, DecaysOnlySectionsThatDecay) {
  const OptimizerOptions options{.lr = 0.1, .weight_decay = 1.0, .momentum = 0};
  EXPECT_NEAR(after_three_updates(options, true), std::pow(0.8, 3), 1e-6);
  EXPECT_NEAR(after_three_updates(options, false), std::pow(0.9, 3), 1e-6);
}

TEST(Lars, MovesALayerInProportionToItsWeightsWhateverTheGradient) {
  const OptimizerOptions options{.name = "lars", .weight_decay = 0.5, .momentum = 0, .trust = 0.01};
  for (const float scale : {1.0F, 1e4F}) {
    const auto optimizer = make_optimizer(options, {{0, 2, true}, {2, 3, false}});
    std::vector<float> w = {3, 4, 1};
    const std::vector<float> g = {0, 5 * scale, 1};
    optimizer->step(w, g, 1.0, 1);
    // |w| = 5, |g| = 5 scale: trust = 0.01 * 5 / (5 scale + 0.5 * 5)
    const double trust = 0.05 / (5.0 * scale + 2.5);
    EXPECT_NEAR(w[0], 3 - trust * 1.5, 1e-6);
    EXPECT_NEAR(w[1], 4 - trust * (5.0 * scale + 2), 1e-6);
    EXPECT_NEAR(w[2], 0, 1e-6) << "what does not decay moves as in SGD";
  }
}

TEST(Lars, StartsFromZeroWeightsAsSgdDoes) {
  const auto optimizer = make_optimizer({.name = "lars", .momentum = 0}, {{0, 1, true}});
  std::vector<float> w = {0};
  const std::vector<float> g = {2};
  optimizer->step(w, g, 0.1, 1);
  EXPECT_NEAR(w[0], -0.2, 1e-7);
}

TEST(AdamW, FollowsTheBiasCorrectedAverages) {
  double w = 1, m = 0, s = 0;
  for (int t = 1; t <= 3; ++t) {
    const double g = w;
    w -= 0.1 * 0.01 * w;
    m = 0.9 * m + 0.1 * g;
    s = 0.999 * s + 0.001 * g * g;
    w -= 0.1 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(s / (1 - std::pow(0.999, t))) + 1e-8);
  }
  EXPECT_NEAR(after_three_updates({.name = "adamw", .lr = 0.1, .weight_decay = 0.01}), w, 1e-5);
}

TEST(Optimizer, StateCarriesAnUpdateOverToAnotherOptimizer) {
  const OptimizerOptions options{.lr = 0.1, .momentum = 0.9};
  const std::vector<float> gradient = {1, 2};
  std::vector<float> straight = {1, 1}, resumed = {1, 1};
  const auto one = make_optimizer(options, {{0, 2, true}});
  one->step(straight, gradient, 0.1, 1);
  resumed = straight;
  const auto two = make_optimizer(options, {{0, 2, true}});
  std::copy(one->state()[0].values.begin(), one->state()[0].values.end(),
            two->state()[0].values.begin());
  one->step(straight, gradient, 0.1, 2);
  two->step(resumed, gradient, 0.1, 2);
  EXPECT_EQ(straight, resumed);
}

TEST(Optimizers, EveryOneGoesDownhillInAllSections) {
  for (const auto& row : optimizers()) {
    const auto optimizer =
        make_optimizer({.name = row->name, .trust = 0.1}, {{0, 20, true}, {20, 33, false}});
    const std::vector<float> start(33, 2);
    std::vector<float> w = start;
    for (int64_t update = 1; update <= 5; ++update) {
      const std::vector<float> gradient = w;  // of w w / 2
      optimizer->step(w, gradient, 0.05, update);
    }
    for (size_t i = 0; i < w.size(); ++i) {
      EXPECT_LT(w[i], 2) << row->name << " " << i;
      EXPECT_GT(w[i], 0) << row->name << " " << i;
    }
    for (const Optimizer::State& state : optimizer->state()) {
      EXPECT_EQ(state.values.size(), w.size()) << row->name << " " << state.name;
      EXPECT_NE(state.values[32], 0) << row->name << " " << state.name;
    }
  }
}

TEST(Optimizers, EveryOneGivesTheSameBitsEveryTime) {
  for (const auto& row : optimizers()) {
    const auto run = [&] {
      const auto optimizer = make_optimizer({.name = row->name, .weight_decay = 0.01}, {{0, 9}});
      std::vector<float> w = {1, -2, 3, -4, 5, -6, 7, -8, 9};
      const std::vector<float> gradient = {0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F, 0.7F, 0.8F, 0.9F};
      for (int64_t update = 1; update <= 3; ++update) optimizer->step(w, gradient, 0.1, update);
      return w;
    };
    EXPECT_EQ(run(), run()) << row->name;
  }
}

// Without a distribution of the standard library's, whose numbers differ between libraries.
std::vector<float> some_numbers(unsigned seed, size_t count) {
  std::mt19937 generator(seed);
  std::vector<float> numbers(count);
  for (float& number : numbers)
    number = static_cast<float>(static_cast<int32_t>(generator())) * 0x1p-30F;
  return numbers;
}

// Computed with AVX2 on x86-64, and one number at a time on arm64.
TEST(Optimizers, EveryOneGivesTheSameBitsOnEveryProcessor) {
  const std::map<std::string, std::string> digests = {
      {"adamw", "aea313a0e66f6d4e0cfa8540ce8cf6c4b097cf9bc8f04064b8aa0fced09b59c7"},
      {"lars", "d312a96628cb9d7e2f28e6be5275ad4141a24b9c57ae334a8f52bd07104eeb16"},
      {"sgd", "2f0dcc7810a3327d682d60fef95698cf3b09381ff91507ee8ab1bea77009f574"},
  };
  for (const auto& row : optimizers()) {
    const auto optimizer = make_optimizer(
        {.name = row->name, .weight_decay = 0.01, .momentum = 0.9, .trust = 0.1, .nesterov = true},
        {{0, 700, true}, {700, 1003, false}});
    std::vector<float> w = some_numbers(1, 1003);
    for (int64_t update = 1; update <= 20; ++update)
      optimizer->step(w, some_numbers(100 + static_cast<unsigned>(update), 1003), 0.05, update);
    Digest digest(Digest::Kind::sha256);
    digest.add(std::as_bytes(std::span(w)));
    EXPECT_EQ(digest.hex(), digests.at(row->name)) << row->name;
  }
}

TEST(Optimizers, SayWhatTheyAreAndWhichKeysTheyUse) {
  EXPECT_EQ(optimizers().names(), (std::vector<std::string>{"adamw", "lars", "sgd"}));
  for (const auto& row : optimizers()) EXPECT_FALSE(row->about.empty()) << row->name;
  const auto uses = [](const char* name, const char* key) {
    const auto& used = optimizers().at(name).uses;
    return std::find(used.begin(), used.end(), key) != used.end();
  };
  EXPECT_TRUE(uses("sgd", "momentum"));
  EXPECT_FALSE(uses("sgd", "trust"));
  EXPECT_TRUE(uses("lars", "trust"));
  EXPECT_FALSE(uses("adamw", "momentum"));
}

TEST(Optimizers, RefuseASecondOneOfAName) {
  expect_bad_input([] { optimizers().add({.name = "sgd", .about = "again", .make = nullptr}); },
                   {"two optimizers named 'sgd'"});
  EXPECT_EQ(optimizers().names().size(), 3U);
}

TEST(Optimizer, RefusesAnUnknownName) {
  expect_bad_input([] { make_optimizer({.name = "sdg"}, {}); },
                   {"'sdg': no such optimizer", "did you mean 'sgd'?", "adamw, lars, sgd"});
}

TEST(Optimizers, KeepAsManyNumbersForEachParameterAsTheirRowSays) {
  for (const auto& row : optimizers())
    EXPECT_EQ(static_cast<int64_t>(make_optimizer({.name = row->name}, {{0, 5}})->state().size()),
              row->state_per_parameter)
        << row->name;
}

// Parameters after some updates of each of two parts of the memory, cut at `cut`, by itself.
std::vector<float> updated_in_parts(const OptimizerOptions& options,
                                    const std::vector<Section>& sections, int64_t cut) {
  const int64_t count = length(sections);
  std::vector<float> w = some_numbers(1, static_cast<size_t>(count));
  for (const Range part : {Range{0, cut}, Range{cut, count}}) {
    const auto begin = static_cast<size_t>(part.begin), size = static_cast<size_t>(part.size());
    const auto optimizer = make_optimizer(options, clipped(sections, part));
    for (int64_t update = 1; update <= 4; ++update) {
      const std::vector<float> gradient =
          some_numbers(10 + static_cast<unsigned>(update), static_cast<size_t>(count));
      optimizer->step(std::span(w).subspan(begin, size), std::span(gradient).subspan(begin, size),
                      0.05, update);
    }
  }
  return w;
}

TEST(Optimizers, GiveTheSameBitsInPartsIfTheirRowSaysThatTheyAreElementwise) {
  const std::vector<Section> sections = {{0, 700, true}, {700, 741, false}, {741, 1003, true}};
  for (const auto& row : optimizers())
    for (const bool nesterov : {false, true}) {
      const OptimizerOptions options{
          .name = row->name, .weight_decay = 0.01, .trust = 0.1, .nesterov = nesterov};
      const std::vector<float> whole = updated_in_parts(options, sections, 0);
      bool same = true;
      for (int64_t cut = 1; cut <= 1003; cut += cut < 70 || cut > 690 ? 1 : 37)
        same = same && updated_in_parts(options, sections, cut) == whole;
      EXPECT_EQ(same, row->elementwise) << row->name;
    }
}

TEST(Sections, AreClippedAndNumberedFromTheBeginningOfTheRange) {
  const std::vector<Section> sections = {{0, 10, true}, {10, 10, false}, {10, 25, false}};
  const auto expect = [&](Range range, const std::vector<Section>& expected) {
    const std::vector<Section> found = clipped(sections, range);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].begin, expected[i].begin);
      EXPECT_EQ(found[i].end, expected[i].end);
      EXPECT_EQ(found[i].decays, expected[i].decays);
    }
  };
  expect({0, 25}, {{0, 10, true}, {10, 25, false}});
  expect({4, 12}, {{0, 6, true}, {6, 8, false}});
  expect({10, 20}, {{0, 10, false}});
  expect({3, 3}, {});
  EXPECT_EQ(length(clipped(sections, {4, 12})), 8);
}

}  // namespace
}  // namespace lockstep::optim
