#include "matpow/timed_span.h"

#include <gtest/gtest.h>

namespace lockstep::matpow {
namespace {

TEST(PhaseTimes, CountTheTimeInWhichAtLeastOneDeviceIsInAPhase) {
  matpow::Timing timing;
  add_up({{Phase::compute, "A", 10, 14},
          {Phase::compute, "B", 11, 15},
          {Phase::compute, "sum", 20, 21},
          {Phase::copy_in, "A", 8, 10},
          {Phase::copy_out, "sum", 9, 12},
          {Phase::free, "free", 30, 31}},
         timing);
  EXPECT_EQ(timing[Phase::compute], 6);
  EXPECT_EQ(timing[Phase::copy_in], 2);
  EXPECT_EQ(timing[Phase::copy_out], 3);
  EXPECT_EQ(timing.copy_seconds, 4);
  EXPECT_EQ(timing[Phase::allocate], 0);
  EXPECT_EQ(timing[Phase::free], 1);
}

}  // namespace
}  // namespace lockstep::matpow
