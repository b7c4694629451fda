#include "launch/guardian.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <optional>
#include <string>

namespace lockstep::launch {
namespace {

int only_child() {
  const std::string self = std::to_string(getpid());
  std::ifstream children("/proc/" + self + "/task/" + self + "/children");
  int pid = 0;
  children >> pid;
  return pid;
}

TEST(Guardian, ThatWasStoppedDoesNotKeepItsLauncherFromEnding) {
  std::optional<Guardian> guardian(std::in_place);
  const int pid = only_child();
  ASSERT_GT(pid, 0);
  ASSERT_EQ(kill(pid, SIGSTOP), 0);
  guardian.reset();
  EXPECT_EQ(kill(pid, 0), -1) << "it is still there";
}

}  // namespace
}  // namespace lockstep::launch
