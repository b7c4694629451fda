#include "base/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

const std::vector<std::string> kWords = {"train.batch", "train.epochs", "optimizer.lr"};

TEST(Nearest, SuggestsTheCandidateWithTheFewestEdits) {
  EXPECT_EQ(did_you_mean("train.bacth", kWords), " (did you mean 'train.batch'?)");
  EXPECT_EQ(did_you_mean("optimiser.lr", kWords), " (did you mean 'optimizer.lr'?)");
}

TEST(Nearest, SaysNothingWhenNothingIsClose) {
  EXPECT_EQ(did_you_mean("xyz", kWords), "");
  EXPECT_EQ(did_you_mean("", {}), "");
}

}  // namespace
}  // namespace lockstep
