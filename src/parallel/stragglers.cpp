#include "parallel/stragglers.h"

#include <algorithm>
#include <utility>

namespace lockstep::parallel {

StragglerReport Stragglers::report(collective::Communicator& group) {
  const auto world = static_cast<size_t>(group.world_size());
  const size_t steps = waits_.size();
  StragglerReport report{.steps = static_cast<int64_t>(steps), .ranks = {}};
  report.ranks.resize(world);
  std::vector<double> all(steps * world);
  std::copy(waits_.begin(), waits_.end(), all.begin() + static_cast<int64_t>(steps) * group.rank());
  waits_.clear();
  if (world == 1 || steps == 0) return report;
  group.all_gather(
      {reinterpret_cast<std::byte*>(all.data()), static_cast<int64_t>(all.size()), Type::f64});
  for (size_t step = 0; step < steps; ++step) {
    size_t last = 0;
    double sum = 0;
    for (size_t rank = 0; rank < world; ++rank) {
      sum += all[rank * steps + step];
      if (all[rank * steps + step] < all[last * steps + step]) last = rank;
    }
    const double least = all[last * steps + step];
    ++report.ranks[last].steps_late;
    report.ranks[last].seconds_caused += (sum - least) / static_cast<double>(world - 1) - least;
  }
  return report;
}

}  // namespace lockstep::parallel

namespace lockstep {

std::string StragglerReport::text() const {
  if (ranks.size() < 2 || steps == 0) return "no rank waited for another";
  const auto worst = std::max_element(ranks.begin(), ranks.end(), [](const Rank& a, const Rank& b) {
    return a.seconds_caused < b.seconds_caused;
  });
  return fmt::format("rank {} was last in {} of {} steps: the others waited {:.2f} s for it",
                     worst - ranks.begin(), worst->steps_late, steps, worst->seconds_caused);
}

}  // namespace lockstep
