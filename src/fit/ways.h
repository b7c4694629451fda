#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fit/way.h"

namespace lockstep::fit {

/// Ways to train a batch, and what is not among them.
struct FoundWays {
  std::vector<Way> ways;
  std::vector<std::string> left_out;  ///< sentences that say what, and why
};

/// Ways to train the batch, those that fit first, the fastest first: data parallelism, stages and
/// recomputation, each alone and with pieces or ZeRO, on as few devices as fit (where none fits,
/// the one that needs the least memory); and of all combinations those that are the fastest on so
/// many devices. Those with passes of so many samples that the model throws are left out. Throws
/// ModelError if it does for every number of them.
FoundWays find_ways(const Question& question, Costs& costs);

/// The largest batch that devices take.
struct LargestBatch {
  int64_t batch = 0;  ///< 0: not even passes of one sample fit
  DeviceNeeds needs = {};
  std::vector<Range> split = {};  ///< with stages
  bool is_all_samples = false;    ///< the data set has no more
};
/// In this way, with so many passes of all pipelines, each of as many samples as fit. Found by
/// measuring: so many fit, and one more does not. `most` is how many samples there are. Throws
/// ModelError if the model throws for every number of samples that was tried.
LargestBatch largest_batch(const Way& way, int64_t passes, const Question& question, Costs& costs,
                           int64_t most);

}  // namespace lockstep::fit
