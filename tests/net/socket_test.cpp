#include "net/socket.h"

#include <gtest/gtest.h>

namespace lockstep::net {
namespace {

TEST(FreePort, CanBeListenedAt) {
  EXPECT_TRUE(listen_at("127.0.0.1", free_port()));
}

}  // namespace
}  // namespace lockstep::net
