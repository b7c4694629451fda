#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/processor.h"
#include "optim/optimizer.h"

namespace lockstep::optim {

/// PyTorch's SGD with momentum, with gradients first multiplied by the section's `trust`, which
/// derived classes define.
class SgdUpdate : public Optimizer {
 public:
  SgdUpdate(const OptimizerOptions& options, std::vector<Section> sections);

  void step(std::span<float> values, std::span<const float> gradients, double lr,
            int64_t update) final;
  std::vector<State> state() final { return {{"momentum", velocity_}}; }

 protected:
  const OptimizerOptions& options() const { return options_; }

 private:
  /// `values` and `gradients` are those of the section.
  virtual float trust(const Section& section, std::span<const float> values,
                      std::span<const float> gradients) const = 0;

  const OptimizerOptions options_;
  const std::vector<Section> sections_;
  const bool wide_ = has_wide_registers();
  std::vector<float> velocity_;
};

}  // namespace lockstep::optim
