#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/element.h"
#include "collective/plan/plan.h"
#include "transport/transport.h"

namespace lockstep::collective {

/// One rank's part of a plan, ready to be run any number of times. What arrives only to be folded
/// is folded as it arrives, where the plan allows it, so that it never lies in scratch memory.
class Program {
 public:
  Program(const Plan& plan, int rank);

  struct Arrival {
    Receive receive;
    bool folds;  ///< into `receive.slot`, rather than overwriting it
  };
  struct Step {
    std::vector<Send> sends;
    std::vector<Arrival> arrivals;
    std::vector<Fold> folds;
    std::vector<Range> finished;
  };

  const std::vector<Step>& steps() const { return steps_; }
  int64_t count() const { return count_; }
  /// Slots that must have memory: slot i does where `uses(i)`.
  int slots() const { return static_cast<int>(used_.size()); }
  bool uses(Slot slot) const { return used_[static_cast<size_t>(slot)]; }
  /// Elements this rank sends.
  int64_t sent() const;

 private:
  std::vector<Step> steps_;
  int64_t count_;
  std::vector<bool> used_;
};

/// What a program works on.
struct Work {
  std::span<std::byte* const> slots;  ///< by slot; those that the program uses
  Type type = Type::f32;
  Operation operation = Operation::sum;
  int64_t divide_by = 1;  ///< for a mean
};

/// Runs this rank's part over a transport. `label`'s last word counts rounds.
void run(const Program& program, const Work& work, transport::Transport& transport,
         transport::Label label, Deadline deadline);

}  // namespace lockstep::collective
