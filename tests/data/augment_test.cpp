#include "data/augment.h"

#include <map>
#include <string>

#include "data/some_datasets.h"
#include "expect_error.h"

namespace lockstep::data {
namespace {

const Shape kChangedShape = {2, 2, 3};

// Two channels of 2 rows and 3 columns.
std::string changed(const Change& change) {
  const std::string from = "abcdefABCDEF";
  std::vector<uint8_t> to(from.size(), 'x');
  copy_changed(change, kChangedShape, reinterpret_cast<const uint8_t*>(from.data()), to.data());
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

TEST(Augment, ShiftsAndRepeatsTheEdge) {
  EXPECT_EQ(changed({.right = 1, .fill = Fill::edge}), "aabddeAABDDE");
  EXPECT_EQ(changed({.right = -2, .fill = Fill::edge}), "cccfffCCCFFF");
  EXPECT_EQ(changed({.down = 1, .fill = Fill::edge}), "abcabcABCABC");
  EXPECT_EQ(changed({.flip = true, .right = 1, .fill = Fill::edge}), "ccbffeCCBFFE");
}

TEST(Augment, ShiftsAndReflectsTheImage) {
  EXPECT_EQ(changed({.right = 1, .fill = Fill::reflect}), "babedeBABEDE");
  EXPECT_EQ(changed({.right = -2, .fill = Fill::reflect}), "cbafedCBAFED");
  EXPECT_EQ(changed({.down = -1, .fill = Fill::reflect}), "defabcDEFABC");
}

TEST(Augment, CutsOutASquareThatMayReachPastTheEdge) {
  EXPECT_EQ(changed({.cutout = 1, .cut_x = 1, .cut_y = 0}), "a.cdefA.CDEF");
  EXPECT_EQ(changed({.cutout = 2, .cut_x = 0, .cut_y = 1}), ".bc.ef.BC.EF");
  EXPECT_EQ(changed({.cutout = 2, .cut_x = 2, .cut_y = 1}), "a..d..A..D..");
  EXPECT_EQ(changed({.flip = true, .cutout = 1, .cut_x = 0, .cut_y = 0}), ".bafed.BAFED");
}

TEST(Augment, DrawsMiddlesOfSquaresAnywhereAfterTheOtherChanges) {
  const Augment without{.flip = true, .shift = 2};
  Augment with = without;
  with.cutout = 3;
  std::map<int64_t, int> columns;
  for (int64_t sample = 0; sample < 4'000; ++sample) {
    const Change change = draw_change(with, {1, 2, 4}, 1, 0, sample);
    const Change before = draw_change(without, {1, 2, 4}, 1, 0, sample);
    EXPECT_EQ(change.flip, before.flip);
    EXPECT_EQ(change.right, before.right);
    EXPECT_LT(change.cut_y, 2);
    ++columns[change.cut_x];
  }
  ASSERT_EQ(columns.size(), 4U);
  for (const auto& [column, times] : columns) EXPECT_NEAR(times, 1'000, 150);
}

TEST(Augment, MirrorsBeforeItShifts) {
  EXPECT_EQ(changed({.flip = true, .right = 1}), ".cb.fe.CB.FE");
  EXPECT_EQ(changed({.flip = true, .right = -1, .down = 1}), "...ba....BA.");
}

TEST(Augment, DrawsByKeyAlone) {
  const Augment augment{.flip = true, .shift = 4};
  const Change one = draw_change(augment, {1, 8, 8}, 1, 2, 3);
  const Change again = draw_change(augment, {1, 8, 8}, 1, 2, 3);
  EXPECT_EQ(one.flip, again.flip);
  EXPECT_EQ(one.right, again.right);
  EXPECT_EQ(one.down, again.down);
}

TEST(Augment, DrawsEveryChangeAboutAsOften) {
  std::map<int64_t, int> right;
  std::map<int64_t, int> down;
  int flips = 0;
  for (int64_t sample = 0; sample < 9'000; ++sample) {
    const Change change = draw_change({.flip = true, .shift = 1}, {1, 8, 8}, 1, 0, sample);
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
  EXPECT_TRUE(draw_change({}, {1, 8, 8}, 1, 2, 3).none());
}

// Images of 1 x 2 x 3 whose pixels are 1 to 6, as bytes and as floats; so is a target.
std::shared_ptr<const ComputedDataset> pairs_of_images(int64_t size) {
  const Shape shape = {1, 2, 3};
  return computed({{{"photo", Type::u8, shape}, {"depth", Type::f32, shape}},
                   {{"drawing", Type::u8, shape}, {"place", Type::i64}}},
                  size, [](int64_t index, const Sample& to) {
                    for (size_t p = 0; p < 6; ++p) {
                      to.as<uint8_t>(0)[p] = static_cast<uint8_t>(p + 1);
                      to.as<float>(1)[p] = static_cast<float>(p + 1);
                      to.as<uint8_t>(2)[p] = static_cast<uint8_t>(p + 1);
                    }
                    to.as<int64_t>(3)[0] = index;
                  });
}

TEST(Augmented, ChangesAllInputsOfASampleAlikeAndNoTarget) {
  const Augment augment{.flip = true, .shift = 1};
  const auto original = pairs_of_images(30);
  const auto dataset = augmented(original, augment, 4);
  EXPECT_EQ(dataset->fields(), original->fields());
  EXPECT_EQ(dataset->digest(), original->digest());
  for (const int64_t epoch : {0, 1}) {
    std::vector<uint8_t> photos;
    std::vector<float> depths;
    const std::vector<uint8_t> photo = {1, 2, 3, 4, 5, 6};
    for (int64_t sample = 0; sample < 30; ++sample) {
      std::vector<uint8_t> changed_photo(6);
      copy_changed(draw_change(augment, {1, 2, 3}, 4, epoch, sample), {1, 2, 3}, photo.data(),
                   changed_photo.data());
      photos.insert(photos.end(), changed_photo.begin(), changed_photo.end());
      depths.insert(depths.end(), changed_photo.begin(), changed_photo.end());
    }
    EXPECT_EQ(read_field<uint8_t>(*dataset, 0, epoch), photos);
    EXPECT_EQ(read_field<float>(*dataset, 1, epoch), depths);
    EXPECT_EQ(read_field<uint8_t>(*dataset, 2, epoch), read_field<uint8_t>(*original, 2));
    EXPECT_EQ(read_field<int64_t>(*dataset, 3, epoch), read_field<int64_t>(*original, 3));
  }
}

TEST(Augmented, DiffersByEpochAndSeed) {
  const Augment augment{.shift = 1};
  const auto first = read_field<uint8_t>(*augmented(pairs_of_images(30), augment, 4), 0, 0);
  EXPECT_EQ(read_field<uint8_t>(*augmented(pairs_of_images(30), augment, 4), 0, 0), first);
  EXPECT_NE(read_field<uint8_t>(*augmented(pairs_of_images(30), augment, 4), 0, 1), first);
  EXPECT_NE(read_field<uint8_t>(*augmented(pairs_of_images(30), augment, 5), 0, 0), first);
}

TEST(Augmented, LeavesTheDataSetAsItIsWhenNothingIsAsked) {
  const auto dataset = pairs_of_images(1);
  EXPECT_EQ(augmented(dataset, {}, 1), dataset);
  const auto rows = labelled<float>({4}, {1, 2, 3, 4}, {0});
  EXPECT_EQ(augmented(rows, {}, 1), rows);
}

TEST(Augmented, RefusesInputsThatAreNoImages) {
  const auto change = [](const Field& input) {
    const auto dataset =
        computed({{{"photo", Type::u8, {1, 2, 2}}, input}, {}}, 1, [](int64_t, const Sample&) {});
    augmented(dataset, {.flip = true}, 1);
  };
  change({"image", Type::f32, {3, 2, 2}});
  expect_bad_input([&] { change({"row", Type::f32, {4}}); },
                   {"data.flip", "shape 4", "not images", "leave it out"});
  expect_bad_input([&] { change({"video", Type::u8, {2, 1, 2, 2}}); }, {"shape 2 x 1 x 2 x 2"});
  expect_bad_input([&] { change({"mask", Type::u8, {1, 2, 2}, {"a", "b"}}); }, {"not images"});
  expect_bad_input([&] { change({"ids", Type::i64, {1, 2, 2}}); }, {"not images"});
  expect_bad_input([&] { change({"exact", Type::f64, {1, 2, 2}}); }, {"not images"});
}

TEST(Augmented, RefusesToMoveAnImageOutOfItself) {
  const auto images = labelled<uint8_t>({1, 2, 3}, {1, 2, 3, 4, 5, 6}, {0});
  augmented(images, {.shift = 1}, 1);
  expect_bad_input([&] { augmented(images, {.shift = 2}, 1); },
                   {"data.shift = 2", "0 to 1", "2 x 3"});
  expect_bad_input([&] { augmented(images, {.shift = -1}, 1); }, {"data.shift = -1"});
}

}  // namespace
}  // namespace lockstep::data
