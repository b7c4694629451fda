#include "collective/plan/explain.h"

#include <gtest/gtest.h>

namespace lockstep::collective {
namespace {

TEST(Explain, ListsEveryMessageOnce) {
  const Plan plan = all_reduce(Algorithm::tree, 4, 8);
  EXPECT_EQ(list_rounds(plan),
            "round 1     1 -> 0   elements 0-7, added\n"
            "round 1     3 -> 2   elements 0-7, added\n"
            "round 2     2 -> 0   elements 0-7, added\n"
            "round 3     0 -> 2   elements 0-7, taken over\n"
            "round 4     0 -> 1   elements 0-7, taken over\n"
            "round 4     2 -> 3   elements 0-7, taken over\n");
}

TEST(Explain, DrawsAnArrowPerMessage) {
  const std::string svg = draw_rounds(all_reduce(Algorithm::ring, 4, 8), "ring");
  size_t arrows = 0;
  for (size_t at = svg.find("marker-end"); at != std::string::npos;
       at = svg.find("marker-end", at + 1))
    ++arrows;
  EXPECT_EQ(arrows, 24);
}

}  // namespace
}  // namespace lockstep::collective
