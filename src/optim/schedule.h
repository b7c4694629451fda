#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::optim {

/// How the learning rate moves over a run. `peak` is the recipe's `optimizer.lr`.
///
/// constant   peak all the way
/// step       peak x gamma for each milestone (an epoch) passed
/// cosine     half a cosine from peak to final_fraction x peak
/// one_cycle  cosine up from peak/25 over the first 30 % of the run, then down to peak/250,000
///
/// All but one_cycle first rise in a straight line over `warmup_epochs` (large batches need it).
struct ScheduleOptions {
  std::string name = "constant";
  double warmup_epochs = 0;
  std::vector<double> milestones;
  double gamma = 0.1;
  double final_fraction = 0;
};

/// The learning rate of one step: a pure function, so a resumed run needs no schedule state.
class Schedule {
 public:
  /// Throws BadInput for an unknown name.
  Schedule(ScheduleOptions options, double peak, int64_t total_steps, int64_t steps_per_epoch);

  double at(int64_t step) const;

 private:
  double after_warmup(double step) const;

  ScheduleOptions options_;
  double peak_;
  double total_steps_;
  double steps_per_epoch_;
};

std::vector<std::string> schedule_names();

}  // namespace lockstep::optim
