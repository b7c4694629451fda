#include "base/child.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>
#include <string>

#include "expect_error.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

TEST(ChildProcess, ReturnsWhatWasComputedThere) {
  const std::string text(100000, 'x');  // more than a pipe holds
  EXPECT_EQ(in_child_process([&] { return text; }), text);
  EXPECT_NE(in_child_process([] { return std::to_string(getpid()); }), std::to_string(getpid()));
}

TEST(ChildProcess, PassesErrorsOn) {
  expect_bad_input([] { in_child_process([]() -> std::string { throw BadInput("no {}", 7); }); },
                   {"no 7"});
  EXPECT_THROW(in_child_process([]() -> std::string { throw std::runtime_error("broken"); }),
               Error);
}

TEST(ChildProcess, ThatIsKilledIsAnError) {
  EXPECT_THROW(in_child_process([]() -> std::string {
                 kill(getpid(), SIGKILL);
                 return "";
               }),
               Error);
}

// As a plugin's code may.
TEST(ChildProcess, ThatEndsItselfIsAnError) {
  for (const int code : {0, 1, 3}) {
    const std::string why =
        message_of<Error>([&] { in_child_process([&]() -> std::string { _exit(code); }); });
    EXPECT_NE(why.find("ended itself, with exit code " + std::to_string(code)), std::string::npos)
        << why;
  }
}

}  // namespace
}  // namespace lockstep
