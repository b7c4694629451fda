#include "launch/own_process.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "launch/workers.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

// What a process of rank 1 comes to when `end` is the last it does.
Ending ending_by(void (*end)()) {
  return run_workers({.count = 1, .first_rank = 1, .prefixed = Prefixed::all}, [&](int rank) {
    become_rank(rank);
    [&]() noexcept { end(); }();
    return 0;
  })[0];
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
