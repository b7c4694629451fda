#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/range.h"

namespace lockstep::collective {

/// Memory of one rank, as long as the bucket. Slot 0 is the bucket itself, which holds the result
/// in the end. A rank that starts with several terms (shards.h) has them in slots 0, 1, ...; a plan
/// may overwrite all of them. The slots after them are scratch memory.
using Slot = int;
inline constexpr Slot kBucket = 0;

struct Send {
  int peer;
  Slot slot;
  Range range;
};

struct Receive {
  int peer;
  Slot slot;
  Range range;
};

/// into = into + from (or min, max), element by element. `from` is not read again afterwards.
struct SlotFold {
  Slot into;
  Slot from;
  Range range;
};

/// What one rank does in one round: it starts all sends and receives at once, and when all of them
/// have completed, it does the folds in order. What a round sends is what the slots held when it
/// began: no message arrives where the same round sends from (folds may write there). Messages
/// between two ranks match in the order listed.
///
/// `finished` ranges of the bucket are complete once the folds are done. A mean divides them there
/// and then, by the number of shards, before they are sent to any rank. Every element that a rank
/// ends with has been finished exactly once, by that rank or by the one it came from. Only the sum
/// of a single shard is never finished: dividing by 1 changes nothing, so its plan needs no round.
struct Round {
  std::vector<Send> sends;
  std::vector<Receive> receives;
  std::vector<SlotFold> folds;
  std::vector<Range> finished;

  /// These ignore empty ranges.
  void send(int peer, Slot slot, Range range);
  void receive(int peer, Slot slot, Range range);
  void fold(Slot into, Slot from, Range range);
  void finish(Range range);
};

/// A whole collective as data: which rank sends which range to which other rank in which round.
/// What rank a sends to rank b in a round, b receives in the same round.
///
/// A Program (collective/program.h) runs one rank's part of a plan over a transport, the simulator
/// (sim/simulate.h) runs all of it on a modelled network, explain.h prints and draws it, and tests
/// follow every contribution through it.
struct Plan {
  int world = 1;
  int64_t count = 0;
  int rounds = 0;
  /// The number of slots that any rank needs, the bucket included.
  int slots = 1;
  /// A pure function, so that a plan of 4,096 ranks takes no memory until it is read.
  std::function<Round(int rank, int round)> round;
};

/// All rounds of one plan, then all rounds of another, among the same ranks and in the same slots.
Plan sequence(Plan first, Plan second);

}  // namespace lockstep::collective
