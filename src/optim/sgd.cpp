#include <utility>

#include "optim/sgd_update.h"

namespace lockstep::optim {
namespace {

class Sgd final : public SgdUpdate {
 public:
  using SgdUpdate::SgdUpdate;

 private:
  float trust(const Section& /*section*/, std::span<const float> /*values*/,
              std::span<const float> /*gradients*/) const override {
    return 1;
  }
};

[[maybe_unused]] const bool sgd_added =
    optimizers().add({.name = "sgd",
                      .about = "stochastic gradient descent with momentum, as in PyTorch",
                      .uses = {"weight_decay", "decay_bias_and_norm", "momentum", "nesterov"},
                      .state_per_parameter = 1,
                      .elementwise = true,
                      .make = [](const OptimizerOptions& options,
                                 std::vector<Section> sections) -> std::unique_ptr<Optimizer> {
                        return std::make_unique<Sgd>(options, std::move(sections));
                      }});

}  // namespace
}  // namespace lockstep::optim
