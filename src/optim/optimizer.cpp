#include "optim/optimizer.h"

#include <utility>

namespace lockstep::optim {

int64_t length(const std::vector<Section>& sections) {
  return sections.empty() ? 0 : sections.back().end;
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
