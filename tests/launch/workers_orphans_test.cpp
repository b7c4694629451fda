// Nothing that workers started outlives them, nor they their launcher.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/deadline.h"
#include "child_process.h"
#include "launch/workers.h"
#include "temporary_folder.h"
#include "worker_programs.h"

namespace lockstep::launch {
namespace {

// Whoever loses its parent becomes this process's child while this lives.
class Adoption {
 public:
  Adoption() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~Adoption() { prctl(PR_SET_CHILD_SUBREAPER, 0); }
};

TEST(Workers, DieWithTheirLauncher) {
  const Adoption adoption;
  ChildProcess launcher([](const ChildProcess::Say& say) {
    run_workers({.count = 2}, [&](int rank) {
      say(std::to_string(getpid()));
      return wait_for_ever(rank);
    });
  });
  const std::set<int> workers = {std::stoi(launcher.line()), std::stoi(launcher.line())};
  launcher.send(SIGKILL);
  for (const int worker : workers) {
    int status = 0;
    // It is ours once its parent is gone.
    const Deadline deadline = Deadline::in(5);
    while (waitpid(worker, &status, 0) != worker && !deadline.passed()) sched_yield();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }
}

// The pid in a file, once it is there.
std::string started_pid(const std::string& file) {
  std::string pid;
  const Deadline deadline = Deadline::in(10);
  while (pid.empty() && !deadline.passed()) std::getline(std::ifstream(file), pid);
  return pid;
}

bool is_gone(int pid) {
  const Deadline deadline = Deadline::in(5);
  while (kill(pid, 0) == 0 && !deadline.passed()) {
    waitpid(-1, nullptr, WNOHANG);
    usleep(10'000);
  }
  return kill(pid, 0) != 0;
}

TEST(Workers, LeaveNothingBehindWhenTheirLauncherIsKilled) {
  const Adoption adoption;
  const TemporaryFolder folder;
  for (const std::string start : {"sleep 600 &", "setsid sleep 600 &"}) {
    const std::string file = folder / "pid";
    std::filesystem::remove(file);
    ChildProcess launcher([&](const auto&) {
      run_workers({.count = 1}, [&](int) {
        return run_shell(
            fmt::format("{} echo $! > {}.part; mv {}.part {}; wait", start, file, file, file));
      });
    });
    const int grandchild = std::stoi(started_pid(file));
    EXPECT_EQ(kill(grandchild, 0), 0) << start;
    launcher.send(SIGKILL);
    EXPECT_TRUE(is_gone(grandchild)) << start;
  }
}

TEST(Workers, TakeWhatTheyStartedInASessionOfItsOwnWithThem) {
  const TemporaryFolder folder;
  const std::string file = folder / "pid";
  run_workers({.count = 1},
              [&](int) { return run_shell(fmt::format("setsid sleep 600 & echo $! > {}", file)); });
  EXPECT_TRUE(is_gone(std::stoi(started_pid(file))));
}

TEST(Workers, OfALauncherThatIsAWorkerItselfLeaveNothingBehindEither) {
  const Adoption adoption;
  const TemporaryFolder folder;
  const std::string file = folder / "pid";
  ChildProcess launcher([&](const auto&) {
    run_workers({.count = 1}, [&](int) {
      run_workers({.count = 1}, [&](int) {
        return run_shell(fmt::format("setsid sleep 600 & echo $! > {}.part; mv {}.part {}; wait",
                                     file, file, file));
      });
      return 0;
    });
  });
  const int grandchild = std::stoi(started_pid(file));
  launcher.send(SIGKILL);
  EXPECT_TRUE(is_gone(grandchild));
}

TEST(Workers, TakeWhatTheyStartedWithThem) {
  const Adoption adoption;
  ChildProcess launcher([](const auto& say) {
    run_workers({.count = 1}, [&](int) {
      if (const int child = fork(); child == 0) {
        say(std::to_string(getpid()));
        wait_for_ever(0);
      }
      usleep(100'000);
      return 0;
    });
    say("over");
  });
  const int grandchild = std::stoi(launcher.line());
  EXPECT_EQ(launcher.line(), "over");
  int status = 0;
  EXPECT_EQ(waitpid(grandchild, &status, 0), grandchild);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

}  // namespace
}  // namespace lockstep::launch
