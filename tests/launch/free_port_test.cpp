#include "launch/free_port.h"

#include <gtest/gtest.h>

namespace lockstep::launch {
namespace {

TEST(FreePort, IsOneToListenAt) {
  const int port = free_port();
  EXPECT_GT(port, 0);
  EXPECT_LE(port, 65535);
}

}  // namespace
}  // namespace lockstep::launch
