#include "lockstep/world.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "expect_error.h"
#include "parallel/worlds.h"

namespace lockstep {
namespace {

TEST(World, SaysWhyItGaveUp) {
  as_workers(2, [](World everyone) {
    everyone.abort("the disk is full");
    const std::string message = message_of<Error>([&] { everyone.barrier(); });
    EXPECT_NE(message.find("the disk is full"), std::string::npos) << message;
  });
}

}  // namespace
}  // namespace lockstep
