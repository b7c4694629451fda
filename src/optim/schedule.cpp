#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/nearest.h"
#include "lockstep/error.h"

namespace lockstep::optim {
namespace {

constexpr double kOneCycleRise = 0.3;
constexpr double kOneCycleStart = 1.0 / 25;
constexpr double kOneCycleEnd = kOneCycleStart * 1e-4;

// From `from` at progress 0 to `to` at progress 1 along half a cosine.
double cosine(double from, double to, double progress) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * std::clamp(progress, 0.0, 1.0))) / 2;
}

}  // namespace

std::vector<std::string> schedule_names() {
  return {"constant", "step", "cosine", "one_cycle"};
}

Schedule::Schedule(ScheduleOptions options, double peak, int64_t total_steps,
                   int64_t steps_per_epoch)
    : options_(std::move(options)),
      peak_(peak),
      total_steps_(static_cast<double>(std::max<int64_t>(total_steps, 1))),
      steps_per_epoch_(static_cast<double>(steps_per_epoch)) {
  const auto names = schedule_names();
  if (std::find(names.begin(), names.end(), options_.name) == names.end())
    throw BadInput("schedule.name '{}': no such schedule{}; there are: {}", options_.name,
                   did_you_mean(options_.name, names), fmt::join(names, ", "));
}

double Schedule::at(int64_t step) const {
  const auto now = static_cast<double>(step);
  const double warmup = options_.warmup_epochs * steps_per_epoch_;
  if (options_.name != "one_cycle" && now < warmup)
    return after_warmup(warmup) * (now + 1) / (warmup + 1);
  return after_warmup(now);
}

double Schedule::after_warmup(double step) const {
  if (options_.name == "step") {
    const double epoch = step / steps_per_epoch_;
    const auto passed = std::count_if(options_.milestones.begin(), options_.milestones.end(),
                                      [&](double milestone) { return epoch >= milestone; });
    return peak_ * std::pow(options_.gamma, static_cast<double>(passed));
  }
  if (options_.name == "cosine") {
    const double warmup = options_.warmup_epochs * steps_per_epoch_;
    const double length = std::max(total_steps_ - warmup, 1.0);
    return cosine(peak_, peak_ * options_.final_fraction, (step - warmup) / length);
  }
  if (options_.name == "one_cycle") {
    const double top = std::max(kOneCycleRise * total_steps_ - 1, 1.0);
    if (step <= top) return cosine(peak_ * kOneCycleStart, peak_, step / top);
    return cosine(peak_, peak_ * kOneCycleEnd, (step - top) / (total_steps_ - 1 - top));
  }
  return peak_;
}

}  // namespace lockstep::optim
