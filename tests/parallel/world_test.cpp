#include "lockstep/world.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "expect_error.h"
#include "parallel/worlds.h"

namespace lockstep {
namespace {

TEST(World, SaysWhatIsWrongWithATensor) {
  as_workers(2, [](World everyone) {
    torch::Tensor across = torch::ones({3, 4}).t();
    expect_bad_input([&] { everyone.all_reduce(across); },
                     {"tensor of 4x3 is not contiguous; call .contiguous()"});
    torch::Tensor nothing;
    expect_bad_input([&] { everyone.all_reduce(nothing); }, {"undefined"});
    torch::Tensor flags = torch::ones({3}, torch::kBool);
    expect_bad_input([&] { everyone.all_reduce(flags); }, {"tensor is of Bool"});
  });
}

TEST(World, CallsOptionsAsTheCallerHasGivenThem) {
  expect_bad_input([] { init({.transport = "shm", .algorithm = "engine"}); },
                   {"WorldOptions::algorithm = engine: transport shm has no all-reduce"});
  expect_bad_input([] { init({.transport = "smh"}); }, {"WorldOptions::transport = 'smh'"});
  const auto with_flag = [](std::string flag) {
    std::string program = "program";
    std::vector<char*> words = {program.data(), flag.data(), nullptr};
    int count = 2;
    init(count, words.data(), {.transport = "shm"});
  };
  expect_bad_input([&] { with_flag("--lockstep-algorithm=engine"); },
                   {"--lockstep-algorithm=engine: transport shm has no all-reduce"});
  expect_bad_input([&] { with_flag("--lockstep-algorithm=rign"); },
                   {"--lockstep-algorithm='rign': no such algorithm", "ring"});
  expect_bad_input([&] { with_flag("--lockstep-transport=smh"); },
                   {"--lockstep-transport='smh': no such transport"});
}

TEST(World, CountsTheBytesItSends) {
  as_workers(2, [](World everyone) {
    const int64_t before = everyone.bytes_sent();
    torch::Tensor values = torch::ones({1000});
    everyone.all_reduce(values);
    const int64_t after = everyone.bytes_sent();
    EXPECT_GE(after - before, 2000);
    World other = everyone.duplicate();
    const int64_t connected = everyone.bytes_sent();
    other.all_reduce(values);
    EXPECT_EQ(everyone.bytes_sent() - connected, after - before);
  });
}

TEST(World, SaysWhyItGaveUp) {
  as_workers(2, [](World everyone) {
    everyone.abort("the disk is full");
    const std::string message = message_of<Error>([&] { everyone.barrier(); });
    EXPECT_NE(message.find("the disk is full"), std::string::npos) << message;
  });
}

}  // namespace
}  // namespace lockstep
