#include "launch/workers.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "base/clock.h"
#include "lockstep/error.h"
#include "transport/child_process.h"
#include "transport/host.h"

namespace lockstep::launch {
namespace {

using transport::ChildProcess;

int wait_for_ever(int /*rank*/) {
  while (true) pause();
}

TEST(Workers, AllEndWell) {
  const auto endings = run_workers(3, [](int) { return 0; });
  ASSERT_EQ(endings.size(), 3U);
  std::set<int> processes;
  for (int rank = 0; rank < 3; ++rank) {
    const Ending& ending = endings[static_cast<size_t>(rank)];
    EXPECT_TRUE(ending.well()) << ending.text();
    EXPECT_EQ(ending.rank, rank);
    EXPECT_EQ(ending.exit_code(), 0);
    processes.insert(ending.pid);
  }
  EXPECT_EQ(processes.size(), 3U);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
}

TEST(Workers, TellWhoEndedWithWhichExitCode) {
  const auto endings = run_workers(3, [](int rank) { return rank == 1 ? 3 : 0; });
  EXPECT_TRUE(endings[0].well());
  EXPECT_TRUE(endings[2].well());
  EXPECT_FALSE(endings[1].well());
  EXPECT_EQ(endings[1].exit_code(), 3);
  EXPECT_EQ(endings[1].text(),
            fmt::format("rank 1 (pid {}) ended with exit code 3", endings[1].pid));
}

TEST(Workers, TellWhoWasKilledByWhichSignal) {
  const auto endings = run_workers(2, [](int rank) { return rank == 1 ? raise(SIGKILL) : 0; });
  EXPECT_TRUE(endings[0].well());
  EXPECT_EQ(endings[1].exit_code(), 128 + SIGKILL);
  EXPECT_EQ(endings[1].text(),
            fmt::format("rank 1 (pid {}) was killed by signal 9 (Killed)", endings[1].pid));
}

TEST(Workers, EndWithTheExitCodeOfTheErrorTheyThrow) {
  const auto endings = run_workers(3, [](int rank) -> int {
    if (rank == 0) throw BadInput("a bad flag");
    if (rank == 1) throw Error("a broken disk");
    throw std::runtime_error("who knows");
  });
  EXPECT_EQ(endings[0].exit_code(), 2);
  EXPECT_EQ(endings[1].exit_code(), 1);
  EXPECT_EQ(endings[2].exit_code(), 1);
}

TEST(Workers, ThatHangAfterAnotherFailedAreKilledAfterThePatience) {
  const Stopwatch watch;
  const auto endings = run_workers(
      3, [](int rank) { return rank == 1 ? 3 : wait_for_ever(rank); }, 0.3);
  EXPECT_GE(watch.seconds(), 0.3);
  EXPECT_LT(watch.seconds(), 3);
  EXPECT_EQ(endings[0].exit_code(), 128 + SIGKILL);
  EXPECT_EQ(endings[1].exit_code(), 3);
  EXPECT_EQ(endings[2].exit_code(), 128 + SIGKILL);
}

TEST(Workers, ThatEndByThemselvesAfterAnotherFailedKeepTheirExitCode) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto endings = run_workers(2, [&](int rank) {
    char byte = 0;
    if (rank == 0) return write(ends[1], &byte, 1) == 1 ? 3 : 1;
    return read(ends[0], &byte, 1) == 1 ? 4 : 1;
  });
  for (const int end : ends) close(end);
  EXPECT_EQ(endings[0].exit_code(), 3);
  EXPECT_EQ(endings[1].exit_code(), 4);
}

TEST(Workers, HaveProcessorsOfTheirOwnWhereThereAreEnough) {
  const auto all = transport::allowed_processors();
  const auto workers = static_cast<int>(all.size());
  for (const Ending& ending : run_workers(
           workers, [](int) { return static_cast<int>(transport::allowed_processors().size()); }))
    EXPECT_EQ(ending.exit_code(), 1);
  for (const Ending& ending : run_workers(
           workers + 1, [&](int) { return transport::allowed_processors() == all ? 0 : 1; }))
    EXPECT_TRUE(ending.well());
}

TEST(Workers, AreNotStartedWhereFilesHaveRunOut) {
  ChildProcess launcher([](const ChildProcess::Say& say) {
    const rlimit few{8, 8};
    setrlimit(RLIMIT_NOFILE, &few);
    try {
      run_workers(10, [](int rank) { return wait_for_ever(rank); });
    } catch (const Error& error) {
      say(error.what());
    }
  });
  EXPECT_NE(launcher.line().find("ulimit -n"), std::string::npos);
}

// Whoever loses its parent becomes this process's child while this lives.
class Adoption {
 public:
  Adoption() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~Adoption() { prctl(PR_SET_CHILD_SUBREAPER, 0); }
};

TEST(Workers, DieWithTheirLauncher) {
  const Adoption adoption;
  ChildProcess launcher([](const ChildProcess::Say& say) {
    run_workers(2, [&](int rank) {
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

TEST(FreePort, IsOneToListenAt) {
  const int port = free_port();
  EXPECT_GT(port, 0);
  EXPECT_LE(port, 65535);
}

}  // namespace
}  // namespace lockstep::launch
