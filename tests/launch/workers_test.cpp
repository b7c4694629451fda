#include "launch/workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/clock.h"
#include "transport/free_port.h"
#include "launch/report.h"
#include "lockstep/error.h"
#include "temporary_folder.h"
#include "transport/child_process.h"
#include "transport/host.h"

namespace lockstep::launch {
namespace {

using transport::ChildProcess;

int wait_for_ever(int /*rank*/) {
  while (true) pause();
}

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
  EXPECT_EQ(endings[1].text(), fmt::format("rank 1 ({}, pid {}) ended with exit code 3",
                                           transport::host_name(), endings[1].pid));
}

TEST(Workers, TellWhoWasKilledByWhichSignal) {
  const auto endings =
      run_workers({.count = 2}, [](int rank) { return rank == 1 ? raise(SIGKILL) : 0; });
  EXPECT_TRUE(endings[0].well());
  EXPECT_EQ(endings[1].exit_code(), 128 + SIGKILL);
  EXPECT_EQ(endings[1].text(), fmt::format("rank 1 ({}, pid {}) was killed by signal 9 (Killed)",
                                           transport::host_name(), endings[1].pid));
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
  const auto all = transport::allowed_processors();
  const auto workers = static_cast<int>(all.size());
  for (const Ending& ending : run_workers({.count = workers}, [](int) {
         return static_cast<int>(transport::allowed_processors().size());
       }))
    EXPECT_EQ(ending.exit_code(), 1);
  for (const Ending& ending : run_workers({.count = workers + 1}, [&](int) {
         return transport::allowed_processors() == all ? 0 : 1;
       }))
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

// Reads `command`'s stdout as a pid and says it once there is one.
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

int run_shell(const std::string& script) {
  execlp("sh", "sh", "-c", script.c_str(), nullptr);
  return 127;
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
  EXPECT_NE(first_failure(stayed_away)->text().find("ended with exit code 0 while others still"),
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

TEST(FreePort, IsOneToListenAt) {
  const int port = transport::free_port();
  EXPECT_GT(port, 0);
  EXPECT_LE(port, 65535);
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
            fmt::format("rank 1 ({}, pid {}) ended with exit code 3; the last it wrote to stderr:\n"
                        "  no end of line",
                        transport::host_name(), endings[1].pid));
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
  EXPECT_NE(first_failure(stopped)->text().find("it hung, or was stopped"), std::string::npos);
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
