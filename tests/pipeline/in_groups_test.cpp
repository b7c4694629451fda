#include "pipeline/in_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace lockstep::pipeline {
namespace {

using Kind = Action::Kind;

TEST(InGroups, EveryMicroBatchIsScatteredComputedAndCollectedOnceInTheirOrder) {
  for (int devices = 1; devices <= 5; ++devices)
    for (int micro_batches = 1; micro_batches <= 12; ++micro_batches) {
      std::map<Kind, int> next;
      for (const Action& action : in_groups(micro_batches, devices)) {
        EXPECT_EQ(action.part, 0);
        EXPECT_EQ(action.micro_batch, next[action.kind]++) << to_string(action);
      }
      for (const Kind kind :
           {Kind::scatter, Kind::forward, Kind::backward, Kind::collect, Kind::finish})
        EXPECT_EQ(next[kind], micro_batches) << micro_batches << " on " << devices;
      EXPECT_EQ(next.size(), 5U);
    }
}

TEST(InGroups, ADeviceHoldsOneMicroBatchAndAllForwardPassesOfAGroupComeBeforeItsBackwardPasses) {
  for (int devices = 1; devices <= 5; ++devices)
    for (int micro_batches = 1; micro_batches <= 12; ++micro_batches) {
      std::map<Kind, int> done;
      for (const Action& action : in_groups(micro_batches, devices)) {
        const int group = action.micro_batch / devices;
        const int before = group * devices, all = std::min(before + devices, micro_batches);
        if (action.kind == Kind::scatter) EXPECT_EQ(done[Kind::finish], before);
        if (action.kind == Kind::forward) EXPECT_EQ(done[Kind::scatter], all);
        if (action.kind == Kind::backward) EXPECT_EQ(done[Kind::forward], all);
        if (action.kind == Kind::collect) EXPECT_EQ(done[Kind::backward], all);
        if (action.kind == Kind::finish) EXPECT_EQ(done[Kind::collect], action.micro_batch + 1);
        ++done[action.kind];
      }
    }
}

}  // namespace
}  // namespace lockstep::pipeline
