#include "data/augment.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace lockstep::data {
namespace {

const Shape kShape = {2, 2, 3};

// Two channels of 2 rows and 3 columns.
std::string changed(const Change& change) {
  const std::string from = "abcdefABCDEF";
  std::vector<uint8_t> to(from.size(), 'x');
  copy_changed(change, kShape, reinterpret_cast<const uint8_t*>(from.data()), to.data());
  std::string text(to.begin(), to.end());
  for (char& letter : text)
    if (letter == '\0') letter = '.';
  return text;
}

TEST(Augment, CopiesWhenThereIsNoChange) {
  EXPECT_EQ(changed({}), "abcdefABCDEF");
}

TEST(Augment, MirrorsEveryRow) {
  EXPECT_EQ(changed({.flip = true}), "cbafedCBAFED");
}

TEST(Augment, ShiftsAndLeavesBlack) {
  EXPECT_EQ(changed({.right = 1}), ".ab.de.AB.DE");
  EXPECT_EQ(changed({.right = -2}), "c..f..C..F..");
  EXPECT_EQ(changed({.down = 1}), "...abc...ABC");
  EXPECT_EQ(changed({.down = -1}), "def...DEF...");
  EXPECT_EQ(changed({.right = 1, .down = -1}), ".de....DE...");
}

TEST(Augment, MirrorsBeforeItShifts) {
  EXPECT_EQ(changed({.flip = true, .right = 1}), ".cb.fe.CB.FE");
  EXPECT_EQ(changed({.flip = true, .right = -1, .down = 1}), "...ba....BA.");
}

TEST(Augment, DrawsByKeyAlone) {
  const Augment augment{.flip = true, .shift = 4};
  const Change one = draw_change(augment, 1, 2, 3);
  const Change again = draw_change(augment, 1, 2, 3);
  EXPECT_EQ(one.flip, again.flip);
  EXPECT_EQ(one.right, again.right);
  EXPECT_EQ(one.down, again.down);
}

TEST(Augment, DrawsEveryChangeAboutAsOften) {
  std::map<int64_t, int> right;
  std::map<int64_t, int> down;
  int flips = 0;
  for (int64_t sample = 0; sample < 9'000; ++sample) {
    const Change change = draw_change({.flip = true, .shift = 1}, 1, 0, sample);
    flips += change.flip ? 1 : 0;
    ++right[change.right];
    ++down[change.down];
  }
  EXPECT_NEAR(flips, 4'500, 250);
  ASSERT_EQ(right.size(), 3U);
  ASSERT_EQ(down.size(), 3U);
  for (const int64_t by : {-1, 0, 1}) {
    EXPECT_NEAR(right[by], 3'000, 250);
    EXPECT_NEAR(down[by], 3'000, 250);
  }
}

TEST(Augment, DrawsNothingUnasked) {
  EXPECT_TRUE(draw_change({}, 1, 2, 3).none());
}

}  // namespace
}  // namespace lockstep::data
