#include <algorithm>

#include "optim/half_cosine.h"
#include "optim/schedule.h"

namespace lockstep::optim {
namespace {

double cosine_rate(const ScheduleOptions& options, const Course& course, double step) {
  const double length = std::max(course.total_steps - course.warmup_steps, 1.0);
  return half_cosine(course.peak, course.peak * options.final_fraction,
                     (step - course.warmup_steps) / length);
}

[[maybe_unused]] const bool cosine_added =
    schedules().add({.name = "cosine",
                     .about = "cosine decay from optimizer.lr to final_fraction of it",
                     .uses = {"warmup_epochs", "final_fraction"},
                     .rate = cosine_rate,
                     .depends_on_length = true});

}  // namespace
}  // namespace lockstep::optim
