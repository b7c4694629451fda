#include "transport/free_port.h"

#include <gtest/gtest.h>

#include "transport/tcp/socket.h"

namespace lockstep::transport {
namespace {

TEST(FreePort, IsOneToListenAt) {
  EXPECT_TRUE(listen_at("127.0.0.1", free_port()));
}

}  // namespace
}  // namespace lockstep::transport
