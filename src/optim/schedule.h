#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/table.h"

namespace lockstep::optim {

/// The recipe's [schedule]: the learning rate over a run. A schedule's row in schedules() lists the
/// keys that it uses.
struct ScheduleOptions {
  /// One of schedules().
  std::string name = "constant";
  /// Linear warm-up over this many epochs, for large batches.
  double warmup_epochs = 0;
  std::vector<double> milestones;
  double gamma = 0.1;
  double final_fraction = 0;
};

/// The run that a schedule is for.
struct Course {
  double peak = 0;  ///< the recipe's optimizer.lr
  double total_steps = 1;
  double steps_per_epoch = 1;
  double warmup_steps = 0;
};

struct ScheduleRow {
  std::string name;
  std::string about;
  /// The keys of [schedule] that it uses: "milestones". It has a warm-up if "warmup_epochs" is
  /// among them.
  std::vector<std::string> uses;
  /// The learning rate at a step after the warm-up.
  double (*rate)(const ScheduleOptions& options, const Course& course, double step);
  /// Throws BadInput for options that it cannot use.
  void (*check)(const ScheduleOptions& options) = [](const ScheduleOptions&) {};
  /// Whether rates depend on the length of the run, so that a run that is made longer is not the
  /// beginning of a longer one.
  bool depends_on_length = false;
};

/// The values of `schedule.name`.
Table<ScheduleRow>& schedules();

/// The learning rate of a step: a pure function, so that a resumed run needs no schedule state.
class Schedule {
 public:
  /// Throws BadInput for an unknown name, or options that the schedule cannot use.
  Schedule(ScheduleOptions options, double peak, int64_t total_steps, int64_t steps_per_epoch);

  double at(int64_t step) const;

 private:
  ScheduleOptions options_;
  const ScheduleRow* row_;
  Course course_;
};

}  // namespace lockstep::optim
