// PyTorch's OneCycleLR: the rate rises along a half cosine over the first part of the run, then
// falls to almost zero. It has no other warm-up.
#include <algorithm>

#include "optim/half_cosine.h"
#include "optim/schedule.h"

namespace lockstep::optim {
namespace {

constexpr double kOneCycleRise = 0.3;
constexpr double kOneCycleStart = 1.0 / 25;
constexpr double kOneCycleEnd = kOneCycleStart * 1e-4;

double one_cycle_rate(const ScheduleOptions& /*options*/, const Course& course, double step) {
  const double peak = course.peak;
  const double top = std::max(kOneCycleRise * course.total_steps - 1, 1.0);
  if (step <= top) return half_cosine(peak * kOneCycleStart, peak, step / top);
  return half_cosine(peak, peak * kOneCycleEnd, (step - top) / (course.total_steps - 1 - top));
}

[[maybe_unused]] const bool one_cycle_added =
    schedules().add({.name = "one_cycle",
                     .about = "rises from optimizer.lr/25 over the first 30 % of the run, then "
                              "falls to optimizer.lr/250,000",
                     .uses = {},
                     .rate = one_cycle_rate,
                     .depends_on_length = true});

}  // namespace
}  // namespace lockstep::optim
