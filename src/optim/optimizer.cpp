#include "optim/optimizer.h"

#include <algorithm>
#include <utility>

namespace lockstep::optim {

int64_t length(const std::vector<Section>& sections) {
  return sections.empty() ? 0 : sections.back().end;
}

std::vector<Section> clipped(const std::vector<Section>& sections, Range range) {
  std::vector<Section> inside;
  for (const Section& section : sections) {
    const Range met = {std::max(section.begin, range.begin), std::min(section.end, range.end)};
    if (!met.empty())
      inside.push_back({met.begin - range.begin, met.end - range.begin, section.decays});
  }
  return inside;
}

Table<OptimizerRow>& optimizers() {
  static Table<OptimizerRow> table("optimizer");
  return table;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<Section> sections) {
  return optimizers().at(options.name).make(options, std::move(sections));
}

}  // namespace lockstep::optim
