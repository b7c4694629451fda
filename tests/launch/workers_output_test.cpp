// What workers write and read.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "base/clock.h"
#include "base/host.h"
#include "child_process.h"
#include "launch/workers.h"
#include "worker_programs.h"

namespace lockstep::launch {
namespace {

TEST(Workers, ThatWriteALotDoNotKeepTheLauncherFromTheOthers) {
  testing::internal::CaptureStdout();
  const Stopwatch watch;
  const auto endings =
      run_workers({.count = 2, .prefixed = Prefixed::all, .patience_seconds = 0.2}, [](int rank) {
        if (rank == 0) return run_shell("exec yes");
        usleep(200'000);
        return 3;
      });
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(first_failure(endings)->rank, 1);
  EXPECT_LT(watch.seconds(), 5);
}

TEST(Workers, ThatFailAreReportedWithoutStackFrames) {
  testing::internal::CaptureStderr();
  const auto endings = run_workers({.count = 1, .prefixed = Prefixed::all}, [](int) {
    return run_shell(
        "echo 'mat1 and mat2 do not match' >&2; i=0; while [ $i -lt 40 ]; do echo \"frame #$i: "
        "f()\" >&2; i=$((i+1)); done; exit 3");
  });
  EXPECT_NE(testing::internal::GetCapturedStderr().find("frame #39"), std::string::npos);
  EXPECT_NE(endings[0].text().find("mat1 and mat2 do not match"), std::string::npos)
      << endings[0].text();
  EXPECT_EQ(endings[0].text().find("frame #"), std::string::npos) << endings[0].text();
}

TEST(Workers, CanBeStoppedWhenNobodyReadsWhatTheyWrite) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ChildProcess launcher([&](const auto& say) {
    dup2(ends[1], STDOUT_FILENO);
    const auto endings = run_workers({.count = 1, .prefixed = Prefixed::all},
                                     [](int) { return run_shell("exec yes"); });
    say(endings[0].text());
  });
  usleep(300'000);  // long enough to fill every buffer on the way
  launcher.send(SIGTERM);
  EXPECT_NE(launcher.line(5).find("was killed by signal 15"), std::string::npos);
  for (const int end : ends) close(end);
}

TEST(Workers, GoOnWhenNobodyReadsWhatTheyWriteAnyMore) {
  ChildProcess launcher([&](const auto& say) {
    int ends[2];
    if (pipe(ends) != 0) return;
    dup2(ends[1], STDOUT_FILENO);
    for (const int end : ends) close(end);
    const auto endings = run_workers({.count = 1, .prefixed = Prefixed::all}, [](int) {
      return run_shell("i=0; while [ $i -lt 1000 ]; do echo $i; i=$((i+1)); done; exit 7");
    });
    say(std::to_string(endings[0].exit_code()));
  });
  EXPECT_EQ(launcher.line(), "7");
}

TEST(Workers, ReadNothingFromATerminal) {
  ChildProcess launcher([&](const auto& say) {
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    grantpt(terminal);
    unlockpt(terminal);
    const int other_end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    dup2(other_end, STDIN_FILENO);
    const auto endings = run_workers({.count = 2}, [](int) { return run_shell("exec cat"); });
    say(std::to_string(endings[0].exit_code() + endings[1].exit_code()));
  });
  EXPECT_EQ(launcher.line(), "0");
}

TEST(Workers, OfRankZeroReadWhatIsPipedIn) {
  ChildProcess launcher([&](const auto& say) {
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], "hello\n", 6) != 6) return;
    dup2(ends[0], STDIN_FILENO);
    for (const int end : ends) close(end);
    const auto endings = run_workers({.count = 2}, [](int rank) {
      return run_shell(rank == 0 ? "read word; [ $word = hello ]" : "! read word");
    });
    say(std::to_string(endings[0].exit_code() + endings[1].exit_code()));
  });
  EXPECT_EQ(launcher.line(), "0");
}

TEST(Workers, MayWriteToATerminalThatStopsTheBackground) {
  const auto endings =
      run_workers({.count = 1}, [](int) { return signal(SIGTTOU, SIG_DFL) == SIG_IGN ? 0 : 1; });
  EXPECT_TRUE(endings[0].well());
}

TEST(Workers, HaveTheirLinesPrefixedAndTheirLastWordsKept) {
  testing::internal::CaptureStdout();
  const auto endings = run_workers({.count = 2, .prefixed = Prefixed::all}, [](int rank) {
    std::puts("one\ntwo");
    std::fputs("no end of line", stderr);
    return rank == 1 ? 3 : 0;
  });
  const std::string out = testing::internal::GetCapturedStdout();
  for (const char* line : {"[0] one\n", "[0] two\n", "[1] one\n", "[1] two\n"})
    EXPECT_NE(out.find(line), std::string::npos) << out;
  EXPECT_EQ(endings[1].text(),
            fmt::format("rank 1 ({}, pid {}) ended with exit code 3; end of its stderr:\n"
                        "  no end of line",
                        host_name(), endings[1].pid));
}

}  // namespace
}  // namespace lockstep::launch
