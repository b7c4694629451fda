#include "base/host.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Host, KnowsHowMuchMemoryIsAvailable) {
  EXPECT_GT(available_memory(), int64_t{1} << 20);
  EXPECT_LT(available_memory(), int64_t{1} << 50);
}

}  // namespace
}  // namespace lockstep
