#include "matpow/tiles.h"

#include <gtest/gtest.h>

#include "expect_error.h"

namespace lockstep::matpow {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(Tiles, AreNotNeededWhereMatricesFit) {
  EXPECT_TRUE(tiles_for(4096, 1, 0).whole());
  EXPECT_TRUE(tiles_for(1024, 1, 17 * kMiB).whole());   // four of 4 MiB
  EXPECT_FALSE(tiles_for(1024, 1, 16 * kMiB).whole());  // and nothing besides
  EXPECT_TRUE(tiles_for(1024, 2, 13 * kMiB).whole());   // three on each of two devices
}

TEST(Tiles, CoverTheMatrixAndFitTheMemory) {
  for (const int64_t size : {1, 17, 100, 1000, 4096, 50'000})
    for (const int64_t memory : {kMiB / 8, kMiB, 64 * kMiB}) {
      const Tiles tiles = tiles_for(size, 1, memory);
      EXPECT_GE(tiles.edge * tiles.a_side, size);
      EXPECT_LT(tiles.edge * (tiles.a_side - 1), size) << "no tile is empty";
      if (!tiles.whole()) {
        EXPECT_LT(6 * 4 * tiles.edge * tiles.edge, memory);
      }
    }
}

TEST(Tiles, AreRefusedWhereTheSmallestDoNotFit) {
  expect_bad_input([] { tiles_for(1000, 2, 1024); },
                   {"--device-memory 1.0 KiB", "at least 70 KiB"});
}

}  // namespace
}  // namespace lockstep::matpow
