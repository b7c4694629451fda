#include "device/memory_account.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/error.h"

namespace lockstep {
namespace {

TEST(MemoryAccount, CountsWhatIsInUseAndItsPeak) {
  MemoryAccount account("virtual:0", 0);
  account.take(100);
  const MemoryUse use = account.take(50);
  account.give_back(100, use);
  EXPECT_EQ(account.figures().in_use, 50);
  EXPECT_EQ(account.figures().peak, 150);
  account.forget_peak();
  EXPECT_EQ(account.figures().peak, 50);
}

TEST(MemoryAccount, CountsUnderTheUseOfTheThreadsInnermostScope) {
  MemoryAccount account("cpu", 0);
  const auto now = [&](MemoryUse use) { return account.figures().now[use]; };
  account.take(1);
  {
    const MemoryScope outer(MemoryUse::parameters);
    account.take(10);
    {
      const MemoryScope inner(MemoryUse::activations);
      EXPECT_EQ(account.take(100), MemoryUse::activations);
    }
    account.take(20);
  }
  account.take(2);
  EXPECT_EQ(now(MemoryUse::other), 3);
  EXPECT_EQ(now(MemoryUse::parameters), 30);
  EXPECT_EQ(now(MemoryUse::activations), 100);
  account.give_back(100, MemoryUse::activations);
  EXPECT_EQ(now(MemoryUse::activations), 0);
}

TEST(MemoryAccount, CountsThreadsWithoutAScopeUnderTheUseThatWasSetForThem) {
  MemoryAccount account("cpu", 0);
  account.set_use_of_other_threads(MemoryUse::activations);
  const MemoryScope scope(MemoryUse::optimizer);
  std::jthread([&] { account.take(7); }).join();
  account.take(5);
  EXPECT_EQ(account.figures().now[MemoryUse::activations], 7);
  EXPECT_EQ(account.figures().now[MemoryUse::optimizer], 5);
}

TEST(MemoryAccount, TellsWhatWasInUseAtThePeak) {
  MemoryAccount account("cpu", 0);
  account.take(10, MemoryUse::parameters);
  account.take(30, MemoryUse::activations);
  account.give_back(30, MemoryUse::activations);
  account.take(5, MemoryUse::gradients);
  EXPECT_EQ(account.figures().at_peak[MemoryUse::parameters], 10);
  EXPECT_EQ(account.figures().at_peak[MemoryUse::activations], 30);
  EXPECT_EQ(account.figures().at_peak[MemoryUse::gradients], 0);
  EXPECT_EQ(describe(account.figures().at_peak), "parameters 10 B, activations 30 B");
}

TEST(MemoryAccount, RecountsAKernelsResultAlsoAtThePeak) {
  MemoryAccount account("cpu", 0);
  account.take(8, MemoryUse::workspace);
  const MemoryScope scope(MemoryUse::activations);
  EXPECT_EQ(account.recount(8, MemoryUse::workspace), MemoryUse::activations);
  EXPECT_EQ(account.figures().now[MemoryUse::workspace], 0);
  EXPECT_EQ(account.figures().now[MemoryUse::activations], 8);
  EXPECT_EQ(account.figures().at_peak[MemoryUse::activations], 8);
  EXPECT_EQ(account.figures().in_use, 8);
}

TEST(MemoryAccount, RefusesMoreThanItsLimitAndCountsNothingThen) {
  MemoryAccount account("virtual:3", 2048);
  account.take(1024, MemoryUse::parameters);
  try {
    account.take(1025);
    FAIL() << "nothing was thrown";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.device(), "virtual:3");
    EXPECT_EQ(error.asked(), 1025);
    EXPECT_EQ(error.in_use(), 1024);
    EXPECT_EQ(error.limit(), 2048);
    EXPECT_NE(std::string(error.what())
                  .find("virtual:3 is out of memory: 1.0 KiB are in use of 2.0 KiB (parameters 1.0 "
                        "KiB)"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(account.figures().in_use, 1024);
  account.take(1024);
  EXPECT_EQ(account.figures().peak, 2048);
  account.set_limit(0);
  account.take(1);
}

TEST(MemoryAccount, CountsForSeveralThreadsAtOnce) {
  MemoryAccount account("cpu", 0);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int k = 0; k < 1000; ++k) account.give_back(8, account.take(8));
      });
  }
  EXPECT_EQ(account.figures().in_use, 0);
  EXPECT_GE(account.figures().peak, 8);
  EXPECT_LE(account.figures().peak, 32);
}

TEST(MemoryCharge, CountsAsLongAsItExists) {
  MemoryAccount account("cpu", 100);
  {
    MemoryCharge charge(&account, 60, MemoryUse::optimizer);
    EXPECT_EQ(account.figures().now[MemoryUse::optimizer], 60);
    EXPECT_THROW(MemoryCharge(&account, 41, MemoryUse::gradients), OutOfMemory);
    MemoryCharge moved = std::move(charge);
    charge = MemoryCharge(&account, 10, MemoryUse::gradients);
    EXPECT_EQ(account.figures().in_use, 70);
    moved = MemoryCharge();
    EXPECT_EQ(account.figures().in_use, 10);
  }
  EXPECT_EQ(account.figures().in_use, 0);
  const MemoryCharge uncounted(nullptr, 1000, MemoryUse::other);
}

}  // namespace
}  // namespace lockstep
