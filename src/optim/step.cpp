#include <algorithm>
#include <cmath>

#include "lockstep/error.h"
#include "optim/schedule.h"

namespace lockstep::optim {
namespace {

double step_rate(const ScheduleOptions& options, const Course& course, double step) {
  const double epoch = step / course.steps_per_epoch;
  const auto passed = std::count_if(options.milestones.begin(), options.milestones.end(),
                                    [&](double milestone) { return epoch >= milestone; });
  return course.peak * std::pow(options.gamma, static_cast<double>(passed));
}

[[maybe_unused]] const bool step_added = schedules().add(
    {.name = "step",
     .about = "optimizer.lr, multiplied by gamma at each of milestones (epochs)",
     .uses = {"warmup_epochs", "milestones", "gamma"},
     .rate = step_rate,
     .check = [](const ScheduleOptions& options) {
       if (options.milestones.empty())
         throw BadInput("schedule.name = \"step\": needs schedule.milestones, such as [80, 120]");
     }});

}  // namespace
}  // namespace lockstep::optim
