#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/element.h"
#include "collective/plan/plan.h"
#include "transport/transport.h"

namespace lockstep::collective {

/// When a message is folded that arrives: while it does, where the plan allows it, so that it needs
/// no scratch memory; or afterwards, because the transport only moves bytes.
enum class Folding { while_arriving, afterwards };

/// One rank's part of a plan, which can be run any number of times.
class Program {
 public:
  Program(const Plan& plan, int rank, Folding folding = Folding::while_arriving);

  struct Arrival {
    Receive receive;
    bool folds;  ///< into `receive.slot`, rather than overwriting it
  };
  /// What the rank does in one round.
  struct RankRound {
    std::vector<Send> sends;
    std::vector<Arrival> arrivals;
    std::vector<SlotFold> folds;
    std::vector<Range> finished;
  };

  const std::vector<RankRound>& rounds() const { return rounds_; }
  int64_t count() const { return count_; }
  /// The number of slots. Slot i must have memory if `uses(i)`.
  int slots() const { return static_cast<int>(used_.size()); }
  bool uses(Slot slot) const { return used_[static_cast<size_t>(slot)]; }
  /// The number of elements that this rank sends.
  int64_t sent() const;

 private:
  std::vector<RankRound> rounds_;
  int64_t count_;
  std::vector<bool> used_;
};

/// The memory that a program works on, and what it computes.
struct Work {
  std::span<std::byte* const>
      slots;  ///< by slot; only those that the program uses must have memory
  Type type = Type::f32;
  Operation operation = Operation::sum;
  int64_t divide_by = 1;  ///< for a mean
};

/// Runs a program over a transport, in the memory that it carries; on a device, what it puts into
/// the transport's stream may still be running when it returns. The last word of `label` counts
/// rounds.
void run(const Program& program, const Work& work, transport::Transport& transport,
         transport::Label label, Deadline deadline);

}  // namespace lockstep::collective
