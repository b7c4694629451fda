#include "device/memory_account.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "lockstep/error.h"

namespace lockstep {
namespace {

TEST(MemoryAccount, CountsWhatIsInUseAndItsPeak) {
  MemoryAccount account("virtual:0", 0);
  account.take(100);
  account.take(50);
  account.give_back(100);
  EXPECT_EQ(account.in_use(), 50);
  EXPECT_EQ(account.peak(), 150);
  account.forget_peak();
  EXPECT_EQ(account.peak(), 50);
}

TEST(MemoryAccount, RefusesMoreThanItsLimitAndCountsNothingThen) {
  MemoryAccount account("virtual:3", 2048);
  account.take(1024);
  try {
    account.take(1025);
    FAIL() << "nothing was thrown";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.device(), "virtual:3");
    EXPECT_EQ(error.asked(), 1025);
    EXPECT_EQ(error.in_use(), 1024);
    EXPECT_EQ(error.limit(), 2048);
    EXPECT_NE(
        std::string(error.what()).find("virtual:3 is out of memory: 1.0 KiB are in use of 2.0 KiB"),
        std::string::npos)
        << error.what();
  }
  EXPECT_EQ(account.in_use(), 1024);
  account.take(1024);
  EXPECT_EQ(account.peak(), 2048);
}

TEST(MemoryAccount, CountsForSeveralThreadsAtOnce) {
  MemoryAccount account("cpu", 0);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int k = 0; k < 1000; ++k) {
          account.take(8);
          account.give_back(8);
        }
      });
  }
  EXPECT_EQ(account.in_use(), 0);
  EXPECT_GE(account.peak(), 8);
  EXPECT_LE(account.peak(), 32);
}

}  // namespace
}  // namespace lockstep
