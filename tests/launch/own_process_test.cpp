#include "launch/own_process.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "launch/worker_programs.h"
#include "launch/workers.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

// What a process of rank 1 comes to when `end` is the last it does.
Ending ending_by(void (*end)()) {
  return run_workers({.count = 1, .first_rank = 1, .prefixed = Prefixed::all}, [&](int rank) {
    end_by_uncaught_errors();
    become_rank(rank);
    [&]() noexcept { end(); }();
    return 0;
  })[0];
}

// An emulator adds a line of its own when a signal ends a process.
std::vector<std::string> own_words(const Ending& ending) {
  std::vector<std::string> words = ending.last_words;
  std::erase_if(words, [](const std::string& line) { return line.starts_with("qemu: "); });
  return words;
}

TEST(OwnProcess, EndsByAnUncaughtErrorWithOneLineAndItsExitCode) {
  const Ending lost = ending_by([] { throw PeerLost(0, "rank 0 is gone"); });
  EXPECT_EQ(lost.exit_code(), kLostOthers);
  EXPECT_EQ(lost.last_words, std::vector<std::string>{"lockstep: rank 1: rank 0 is gone"});
  EXPECT_EQ(ending_by([] { throw BadInput("a bad flag"); }).exit_code(), 2);
}

TEST(OwnProcess, SaysItsRankOnlyOnce) {
  const Ending ending = ending_by([] { throw Error("rank 1: no disk"); });
  EXPECT_EQ(ending.last_words, std::vector<std::string>{"lockstep: rank 1: no disk"});
}

TEST(OwnProcess, IsAbortedByAnyOtherExceptionWithItsTypeAndMessage) {
  const Ending ending = ending_by([] { throw std::runtime_error("who knows"); });
  EXPECT_EQ(ending.exit_code(), 128 + SIGABRT);
  EXPECT_EQ(own_words(ending),
            std::vector<std::string>{"lockstep: rank 1: uncaught std::runtime_error: who knows"});
}

TEST(OwnProcess, ShowsTheMessageOfAnExceptionThatHasALongStack) {
  testing::internal::CaptureStderr();
  const Ending ending = ending_by([] {
    std::string text = "sizes do not match\nException raised from here (most recent call first):";
    for (int frame = 0; frame < 40; ++frame) text += "\nframe #" + std::to_string(frame);
    throw std::runtime_error(text);
  });
  const std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_NE(shown.find("frame #4\n"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("frame #5\n"), std::string::npos) << shown;
  EXPECT_EQ(own_words(ending).front(),
            "lockstep: rank 1: uncaught std::runtime_error: sizes do not match");
}

TEST(OwnProcess, LosesNoLineThatItWrote) {
  testing::internal::CaptureStdout();
  ending_by([] {
    std::puts("one");
    std::abort();
  });
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "[1] one\n");
}

}  // namespace
}  // namespace lockstep::launch
