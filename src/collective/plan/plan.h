#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/range.h"

namespace lockstep::collective {

/// Memory of one rank, as long as the bucket. Slot 0 is the bucket itself, which ends with the
/// result. A rank that starts with several terms (collective/shards.h) has them in slots 0, 1, ...,
/// and loses all but the bucket. The slots after them are scratch.
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

/// into = into + from (or min, max), element by element. What was in `from` is not read again.
struct Fold {
  Slot into;
  Slot from;
  Range range;
};

/// What one rank does in one round: it sends and receives all of this at once, and folds, in order,
/// when everything has arrived and left. What a round sends is what the slots held when it began:
/// nothing arrives where the same round sends from (folds may write there). Messages between two
/// ranks match in the order listed.
///
/// `finished` ranges of the bucket are complete once the folds are done: a mean divides them there
/// and then, by the number of shards, before anyone gets them. What a rank ends with has been
/// finished exactly once, by itself or by whoever it came from. Only the sum of a single shard is
/// never finished: dividing by 1 changes nothing, so its plan needs no round.
struct Round {
  std::vector<Send> sends;
  std::vector<Receive> receives;
  std::vector<Fold> folds;
  std::vector<Range> finished;

  /// These leave out what is empty.
  void send(int peer, Slot slot, Range range);
  void receive(int peer, Slot slot, Range range);
  void fold(Slot into, Slot from, Range range);
  void finish(Range range);
};

/// Who sends which range to whom in which round: the whole of a collective, as data. What rank a
/// sends to b in a round, b receives in the same round.
///
/// The executor runs a plan over a transport, the simulator over a modelled network, the explainer
/// prints it, and the tests follow every contribution through it.
struct Plan {
  int world = 1;
  int64_t count = 0;
  int rounds = 0;
  /// Slots a rank needs at most, the bucket included.
  int slots = 1;
  /// A pure function, so that 4,096 ranks need no memory until they are looked at.
  std::function<Round(int rank, int round)> round;
};

/// First all of one plan, then all of another, among the same ranks and in the same slots.
Plan sequence(Plan first, Plan second);

}  // namespace lockstep::collective
