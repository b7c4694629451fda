#include "collective/plan/explain.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "collective/plan/all_reduce.h"

namespace lockstep::collective {
namespace {

TEST(Explain, ListsEveryMessageOnce) {
  const Plan plan = all_reduce(parse_algorithm("tree"), 4, 8);
  EXPECT_EQ(list_rounds(plan),
            "round 1     1 -> 0   elements 0-7, added\n"
            "round 1     3 -> 2   elements 0-7, added\n"
            "round 2     2 -> 0   elements 0-7, added\n"
            "round 3     0 -> 2   elements 0-7, taken over\n"
            "round 4     0 -> 1   elements 0-7, taken over\n"
            "round 4     2 -> 3   elements 0-7, taken over\n");
}

TEST(Explain, DrawsAnArrowPerMessage) {
  const std::string svg = draw_rounds(all_reduce(parse_algorithm("ring"), 4, 8), "ring");
  size_t arrows = 0;
  for (size_t at = svg.find("marker-end"); at != std::string::npos;
       at = svg.find("marker-end", at + 1))
    ++arrows;
  EXPECT_EQ(arrows, 24);
}

TEST(Sketch, HasARowForEachRankAndAColumnForEachRound) {
  const std::string sketch = sketch_rounds(all_reduce(parse_algorithm("tree"), 4, 8));
  EXPECT_EQ(sketch.substr(0, sketch.find("->1 sends")),
            "round   1    2    3    4\n"
            "rank 0  <+1  <+2  ->2  ->1\n"
            "rank 1  ->0  .    .    <-0\n"
            "rank 2  <+3  ->0  <-0  ->3\n"
            "rank 3  ->2  .    .    <-2\n");
}

TEST(Sketch, JoinsNeighbouringPeers) {
  const std::string sketch = sketch_rounds(all_reduce(parse_algorithm("direct"), 5, 100));
  EXPECT_NE(sketch.find("rank 2  ->0-1,3-4 <+0-1,3-4  ->0-1,3-4 <-0-1,3-4\n"), std::string::npos)
      << sketch;
}

TEST(Sketch, OfALargeWorldIsShortAndSaysSo) {
  const std::string sketch = sketch_rounds(all_reduce(parse_algorithm("ring"), 4096, 4096));
  EXPECT_LT(std::count(sketch.begin(), sketch.end(), '\n'), 25);
  EXPECT_NE(sketch.find(" of 8190 rounds, 16 of 4096 ranks"), std::string::npos) << sketch;
}

TEST(Sketch, OfOneRankSaysThatThereIsNothingToDo) {
  EXPECT_NE(sketch_rounds(all_reduce(parse_algorithm("ring"), 1, 8)).find("no rounds"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::collective
