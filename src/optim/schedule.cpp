#include "optim/schedule.h"

#include <algorithm>
#include <utility>

namespace lockstep::optim {

Table<ScheduleRow>& schedules() {
  static Table<ScheduleRow> table("schedule");
  return table;
}

Schedule::Schedule(ScheduleOptions options, double peak, int64_t total_steps,
                   int64_t steps_per_epoch)
    : options_(std::move(options)),
      row_(&schedules().at(options_.name)),
      course_{.peak = peak,
              .total_steps = static_cast<double>(std::max<int64_t>(total_steps, 1)),
              .steps_per_epoch = static_cast<double>(steps_per_epoch)} {
  row_->check(options_);
  if (std::find(row_->uses.begin(), row_->uses.end(), "warmup_epochs") != row_->uses.end())
    course_.warmup_steps = options_.warmup_epochs * course_.steps_per_epoch;
}

double Schedule::at(int64_t step) const {
  const auto now = static_cast<double>(step);
  const double warmup = course_.warmup_steps;
  if (now < warmup) return row_->rate(options_, course_, warmup) * (now + 1) / (warmup + 1);
  return row_->rate(options_, course_, now);
}

}  // namespace lockstep::optim
