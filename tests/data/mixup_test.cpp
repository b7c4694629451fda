#include "data/mixup.h"

#include <cmath>
#include <numeric>

#include "data/some_datasets.h"
#include "expect_error.h"

namespace lockstep::data {
namespace {

// Sample i has x = {i, -i} and class i % 3.
std::shared_ptr<const Dataset> numbered(int64_t size) {
  return computed({{{"x", Type::f32, {2}}}, {label_field({"a", "b", "c"})}}, size,
                  [](int64_t index, const Sample& to) {
                    to.as<float>(0)[0] = static_cast<float>(index);
                    to.as<float>(0)[1] = static_cast<float>(-index);
                    to.as<int64_t>(1)[0] = index % 3;
                  });
}

TEST(Mixup, GivesWeightedMeansAndTheProbabilitiesOfClasses) {
  const int64_t size = 20;
  const auto dataset = mixed_up(numbered(size), 0.8, 5);
  EXPECT_EQ(dataset->fields().inputs, numbered(1)->fields().inputs);
  EXPECT_EQ(dataset->fields().targets,
            (std::vector<Field>{{"label", Type::f32, {3}, {"a", "b", "c"}}}));
  const std::vector<float> x = read_field<float>(*dataset, 0, 2);
  const std::vector<float> p = read_field<float>(*dataset, 1, 2);
  for (int64_t i = 0; i < size; ++i) {
    const auto [partner, own] = draw_mix(0.8, size, 5, 2, i);
    const double expected = own * static_cast<double>(i) + (1 - own) * static_cast<double>(partner);
    const auto at = static_cast<size_t>(i);
    EXPECT_NEAR(x[2 * at], expected, 1e-5);
    EXPECT_NEAR(x[2 * at + 1], -expected, 1e-5);
    std::vector<double> probabilities(3);
    probabilities[at % 3] += own;
    probabilities[static_cast<size_t>(partner % 3)] += 1 - own;
    for (size_t label = 0; label < 3; ++label)
      EXPECT_NEAR(p[3 * at + label], probabilities[label], 1e-6);
  }
}

TEST(Mixup, MixesNumericTargetsLikeInputs) {
  const auto numbers = computed({{{"x", Type::f32, {1}}}, {{"y", Type::f64, {1}}}}, 9,
                                [](int64_t index, const Sample& to) {
                                  to.as<float>(0)[0] = static_cast<float>(index);
                                  to.as<double>(1)[0] = static_cast<double>(10 * index);
                                });
  const auto dataset = mixed_up(numbers, 1, 5);
  const auto x = read_field<float>(*dataset, 0);
  const auto y = read_field<double>(*dataset, 1);
  for (size_t i = 0; i < 9; ++i) EXPECT_NEAR(y[i], 10 * static_cast<double>(x[i]), 1e-5);
}

TEST(Mixup, DrawsByKeyAlone) {
  const auto same = [](const Mix& a, const Mix& b) {
    return a.partner == b.partner && a.own == b.own;
  };
  const Mix drawn = draw_mix(0.4, 1000, 1, 2, 3);
  EXPECT_TRUE(same(drawn, draw_mix(0.4, 1000, 1, 2, 3)));
  EXPECT_FALSE(same(drawn, draw_mix(0.4, 1000, 2, 2, 3)));
  EXPECT_FALSE(same(drawn, draw_mix(0.4, 1000, 1, 3, 3)));
  EXPECT_FALSE(same(drawn, draw_mix(0.4, 1000, 1, 2, 4)));
}

// The variance of Beta(a, a) is 1 / (4 (2 a + 1)), and a share and its complement are equally
// likely.
TEST(Mixup, DrawsSharesFromTheBetaDistribution) {
  for (const double alpha : {0.05, 0.2, 1.0}) {
    const int64_t draws = 20'000;
    double variance = 0, partners = 0;
    for (int64_t i = 0; i < draws; ++i) {
      const auto [partner, own] = draw_mix(alpha, 100, 1, 0, i);
      ASSERT_GE(own, 0.5);
      ASSERT_LE(own, 1);
      variance += (own - 0.5) * (own - 0.5) / static_cast<double>(draws);
      partners += static_cast<double>(partner) / static_cast<double>(draws);
    }
    EXPECT_NEAR(variance, 1 / (4 * (2 * alpha + 1)), 0.005) << alpha;
    EXPECT_NEAR(partners, 49.5, 1);
  }
  EXPECT_TRUE(std::isfinite(draw_mix(1e-6, 100, 1, 0, 0).own)) << "powers that underflow";
}

TEST(Mixup, RefusesALabelThatIsNoClass) {
  const auto dataset = mixed_up(labelled<float>({1}, {1, 2, 3}, {0, 1, 2}), 0.5, 1);
  expect_bad_input([&] { read_field<float>(*dataset, 1); }, {"label 2", "0 to 1"});
}

TEST(Mixup, NamesTheSampleThatCannotBeReadNotTheOneItIsMixedWith) {
  const auto torn = computed({{{"x"}}, {}}, 20, [](int64_t index, const Sample& to) {
    if (index == 7) throw std::runtime_error("torn out");
    to.as<float>(0)[0] = 1;
  });
  const auto mixed = mixed_up(torn, 0.2, 1);
  const SampleRoom room(mixed->fields());
  for (int64_t epoch = 0; epoch < 9; ++epoch)
    for (int64_t i = 0; i < 20; ++i) try {
        write_sample(*mixed, i, epoch, room.memory());
      } catch (const BadInput& error) {
        EXPECT_STREQ(error.what(), "data: sample 7 cannot be read: torn out");
      }
}

TEST(Mixup, LeavesTheDataSetAsItIsWhenNothingIsAsked) {
  const auto dataset = numbered(4);
  EXPECT_EQ(mixed_up(dataset, 0, 1), dataset);
}

TEST(Mixup, RefusesWhatCannotBeMixed) {
  const Field numbers{"x", Type::f32, {2}};
  const Field tokens{"x", Type::i64, {2}};
  const Field map{"map", Type::i64, {4}, {"a", "b"}};
  expect_bad_input([&] { mixed_up(zeros({{tokens}, {numbers}}, 4), 0.2, 1); },
                   {"data.mixup", "input 'x'"});
  expect_bad_input([&] { mixed_up(zeros({{numbers}, {map}}, 4), 0.2, 1); },
                   {"data.mixup", "target 'map'"});
}

}  // namespace
}  // namespace lockstep::data
