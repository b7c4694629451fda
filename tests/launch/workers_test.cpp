#include "launch/workers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "base/clock.h"
#include "base/host.h"
#include "child_process.h"
#include "launch/report.h"
#include "lockstep/error.h"
#include "worker_programs.h"

namespace lockstep::launch {
namespace {

TEST(Workers, AllEndWell) {
  const auto endings = run_workers({.count = 3}, [](int) { return 0; });
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
  const auto endings = run_workers({.count = 3}, [](int rank) { return rank == 1 ? 3 : 0; });
  EXPECT_TRUE(endings[0].well());
  EXPECT_TRUE(endings[2].well());
  EXPECT_FALSE(endings[1].well());
  EXPECT_EQ(endings[1].exit_code(), 3);
  EXPECT_EQ(endings[1].text(),
            fmt::format("rank 1 ({}, pid {}) ended with exit code 3", host_name(), endings[1].pid));
}

TEST(Workers, TellWhoWasKilledByWhichSignal) {
  const auto endings =
      run_workers({.count = 2}, [](int rank) { return rank == 1 ? raise(SIGKILL) : 0; });
  EXPECT_TRUE(endings[0].well());
  EXPECT_EQ(endings[1].exit_code(), 128 + SIGKILL);
  EXPECT_EQ(endings[1].text(),
            fmt::format("rank 1 ({}, pid {}) was killed by signal 9 (Killed): by "
                        "a user, or by the system because it ran out of memory",
                        host_name(), endings[1].pid));
}

TEST(Workers, TellWhatUsuallyCausesASignal) {
  const auto text = [](int signal) { return Ending{.status = signal}.text(); };
  EXPECT_NE(text(SIGBUS).find("a memory-mapped data file was truncated"), std::string::npos);
  EXPECT_NE(text(SIGXFSZ).find("ulimit -f"), std::string::npos);
  EXPECT_TRUE(text(SIGSEGV).ends_with("(Segmentation fault)")) << text(SIGSEGV);
}

TEST(Workers, EndWithTheExitCodeOfTheErrorTheyThrow) {
  const auto endings = run_workers({.count = 3}, [](int rank) -> int {
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
  const auto endings = run_workers({.count = 3, .patience_seconds = 0.3},
                                   [](int rank) { return rank == 1 ? 3 : wait_for_ever(rank); });
  EXPECT_GE(watch.seconds(), 0.3);
  EXPECT_LT(watch.seconds(), 3);
  EXPECT_EQ(endings[0].exit_code(), 128 + SIGKILL);
  EXPECT_EQ(endings[1].exit_code(), 3);
  EXPECT_EQ(endings[2].exit_code(), 128 + SIGKILL);
}

TEST(Workers, ThatEndByThemselvesAfterAnotherFailedKeepTheirExitCode) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto endings = run_workers({.count = 2}, [&](int rank) {
    char byte = 0;
    if (rank == 0) return write(ends[1], &byte, 1) == 1 ? 3 : 1;
    return read(ends[0], &byte, 1) == 1 ? 4 : 1;
  });
  for (const int end : ends) close(end);
  EXPECT_EQ(endings[0].exit_code(), 3);
  EXPECT_EQ(endings[1].exit_code(), 4);
}

TEST(Workers, HaveProcessorsOfTheirOwnWhereThereAreEnough) {
  const auto all = allowed_processors();
  const auto workers = static_cast<int>(all.size());
  for (const Ending& ending : run_workers(
           {.count = workers}, [](int) { return static_cast<int>(allowed_processors().size()); }))
    EXPECT_EQ(ending.exit_code(), 1);
  for (const Ending& ending : run_workers({.count = workers + 1},
                                          [&](int) { return allowed_processors() == all ? 0 : 1; }))
    EXPECT_TRUE(ending.well());
}

TEST(Workers, AreNotStartedWhereFilesHaveRunOut) {
  ChildProcess launcher([](const ChildProcess::Say& say) {
    const rlimit few{8, 8};
    setrlimit(RLIMIT_NOFILE, &few);
    try {
      run_workers({.count = 10}, [](int rank) { return wait_for_ever(rank); });
    } catch (const Error& error) {
      say(error.what());
    }
  });
  EXPECT_NE(launcher.line().find("ulimit -n"), std::string::npos);
}

TEST(Workers, ThatOthersWaitForInVainAreNamed) {
  const Stopwatch watch;
  const auto stayed_away = run_workers({.count = 2}, [](int rank) {
    if (rank == 1) return 0;
    tell_launcher(rank, Stage::meeting);
    return wait_for_ever(rank);
  });
  EXPECT_LT(watch.seconds(), 2.5);
  ASSERT_NE(first_failure(stayed_away), nullptr);
  EXPECT_EQ(first_failure(stayed_away)->rank, 1);
  EXPECT_EQ(first_failure(stayed_away)->exit_code(), kLostOthers);
  EXPECT_NE(
      first_failure(stayed_away)->text().find("ended with exit code 0 while other workers still"),
      std::string::npos);

  const auto left = run_workers({.count = 3}, [](int rank) {
    if (rank == 1) return 0;
    usleep(100'000);
    return kLostOthers;
  });
  EXPECT_EQ(first_failure(left)->rank, 1);
}

TEST(Workers, MayEndWhileOthersDoNotWaitForThem) {
  const auto endings = run_workers({.count = 2}, [](int rank) {
    tell_launcher(rank, Stage::meeting);
    tell_launcher(rank, Stage::met);
    if (rank == 0) usleep(200'000);
    return 0;
  });
  EXPECT_EQ(first_failure(endings), nullptr);
}

TEST(Workers, ThatEndAsTheyWereAskedHaveNotFailed) {
  ChildProcess launcher([&](const auto& say) {
    const auto endings = run_workers({.count = 2}, [&](int rank) {
      signal(SIGINT, [](int) { _exit(130); });
      say("ready");
      return wait_for_ever(rank);
    });
    say(first_failure(endings) == nullptr && endings[1].as_asked ? "nobody failed" : "failed");
  });
  launcher.line();
  launcher.line();
  launcher.send(SIGINT);
  EXPECT_EQ(launcher.line(), "nobody failed");
}

TEST(Workers, AreNotBlamedForWhatOthersDid) {
  const WorkersOptions options{.count = 3, .patience_seconds = 0.3};
  const auto killed = run_workers(options, [](int rank) {
    if (rank != 1) return kLostOthers;
    usleep(50'000);
    return raise(SIGKILL);
  });
  EXPECT_EQ(first_failure(killed)->rank, 1);
  const auto stopped =
      run_workers(options, [](int rank) { return rank == 2 ? raise(SIGSTOP) : kLostOthers; });
  EXPECT_EQ(first_failure(stopped)->rank, 2);
  EXPECT_NE(first_failure(stopped)->text().find("it hung or was stopped"), std::string::npos);
}

// One that is stopped, say, while the others have ended well.
TEST(Workers, ThatHearNoSignalAreKilledAfterThePatience) {
  ChildProcess launcher([&](const auto& say) {
    const auto endings = run_workers({.count = 2, .patience_seconds = 0.3}, [&](int rank) -> int {
      if (rank == 0) return 0;
      signal(SIGTERM, SIG_IGN);
      say("ready");
      return wait_for_ever(rank);
    });
    say(std::to_string(endings[1].exit_code()));
  });
  EXPECT_EQ(launcher.line(), "ready");
  usleep(100'000);
  kill(launcher.pid(), SIGTERM);
  EXPECT_EQ(launcher.line(), "137");
}

TEST(Workers, GetASignalOnceAndAreKilledByTheNext) {
  for (const int signals : {1, 2}) {
    ChildProcess launcher([&](const auto& say) {
      const auto endings = run_workers({.count = 2}, [&](int) -> int {
        static volatile sig_atomic_t seen = 0;
        signal(SIGINT, [](int) { seen = seen + 1; });
        say("ready");
        while (seen == 0) usleep(1000);
        if (signals == 2) wait_for_ever(0);
        return 40 + seen;
      });
      say(std::to_string(endings[0].exit_code()));
    });
    EXPECT_EQ(launcher.line(), "ready");
    EXPECT_EQ(launcher.line(), "ready");
    kill(launcher.pid(), SIGINT);
    if (signals == 2) {
      usleep(100'000);
      kill(launcher.pid(), SIGINT);
    }
    EXPECT_EQ(launcher.line(), signals == 1 ? "41" : "137");
  }
}

}  // namespace
}  // namespace lockstep::launch
