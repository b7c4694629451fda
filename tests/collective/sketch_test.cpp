#include "collective/plan/sketch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "collective/plan/all_reduce.h"

namespace lockstep::collective {
namespace {

TEST(Sketch, HasARowForEachRankAndAColumnForEachRound) {
  const std::string sketch = sketch_rounds(all_reduce(Algorithm::tree, 4, 8));
  EXPECT_EQ(sketch.substr(0, sketch.find("->1 sends")),
            "round   1    2    3    4\n"
            "rank 0  <+1  <+2  ->2  ->1\n"
            "rank 1  ->0  .    .    <-0\n"
            "rank 2  <+3  ->0  <-0  ->3\n"
            "rank 3  ->2  .    .    <-2\n");
}

TEST(Sketch, JoinsNeighbouringPeers) {
  const std::string sketch = sketch_rounds(all_reduce(Algorithm::direct, 5, 100));
  EXPECT_NE(sketch.find("rank 2  ->0-1,3-4 <+0-1,3-4  ->0-1,3-4 <-0-1,3-4\n"), std::string::npos)
      << sketch;
}

TEST(Sketch, OfALargeWorldIsShortAndSaysSo) {
  const std::string sketch = sketch_rounds(all_reduce(Algorithm::ring, 4096, 4096));
  EXPECT_LT(std::count(sketch.begin(), sketch.end(), '\n'), 25);
  EXPECT_NE(sketch.find(" of 8190 rounds, 16 of 4096 ranks"), std::string::npos) << sketch;
}

TEST(Sketch, OfOneRankSaysThatThereIsNothingToDo) {
  EXPECT_NE(sketch_rounds(all_reduce(Algorithm::ring, 1, 8)).find("no rounds"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::collective
