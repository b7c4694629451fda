#pragma once

#include <torch/optim/optimizer.h>
#include <torch/optim/serialize.h>

#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {

/// An optimizer as a user may write it: its update depends on the norm of a parameter's whole
/// gradient, so that it cannot be computed from parts of it.
struct NormedSgdOptions : torch::optim::OptimizerCloneableOptions<NormedSgdOptions> {
  NormedSgdOptions(double rate) : lr_(rate) {}  // NOLINT: implicit, as in torch::optim
  TORCH_ARG(double, lr) = 0.1;

 public:
  void serialize(torch::serialize::InputArchive& archive) override {
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  }
  void serialize(torch::serialize::OutputArchive& archive) const override {
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  }
  double get_lr() const override { return lr(); }
  void set_lr(const double rate) override { lr(rate); }
};

struct NormedSgdParamState : torch::optim::OptimizerCloneableParamState<NormedSgdParamState> {
  TORCH_ARG(torch::Tensor, velocity);
  TORCH_ARG(int64_t, step) = 0;

 public:
  void serialize(torch::serialize::InputArchive& archive) override {
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, velocity);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(int64_t, step);
  }
  void serialize(torch::serialize::OutputArchive& archive) const override {
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(velocity);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(step);
  }
};

class NormedSgd : public torch::optim::Optimizer {
 public:
  NormedSgd(std::vector<torch::optim::OptimizerParamGroup> groups, NormedSgdOptions options)
      : Optimizer(std::move(groups), std::make_unique<NormedSgdOptions>(options)) {}
  NormedSgd(const std::vector<torch::Tensor>& parameters, NormedSgdOptions options)
      : NormedSgd(std::vector{torch::optim::OptimizerParamGroup(parameters)}, options) {}

  torch::Tensor step(LossClosure /*closure*/ = nullptr) override {
    const torch::NoGradGuard no_grad;
    for (auto& group : param_groups_)
      for (auto& parameter : group.params()) {
        if (!parameter.grad().defined()) continue;
        auto& slot = state_[key_of(parameter, state_)];
        if (!slot) {
          auto made = std::make_unique<NormedSgdParamState>();
          made->velocity(torch::zeros_like(parameter));
          slot = std::move(made);
        }
        auto& state = static_cast<NormedSgdParamState&>(*slot);
        state.step(state.step() + 1);
        state.velocity().mul_(0.9).add_(parameter.grad() / (parameter.grad().norm() + 1e-3));
        parameter.sub_(state.velocity(),
                       group.options().get_lr() / static_cast<double>(state.step()));
      }
    return {};
  }
  void save(torch::serialize::OutputArchive& archive) const override {
    torch::optim::serialize<NormedSgdParamState, NormedSgdOptions>(archive, *this);
  }
  void load(torch::serialize::InputArchive& archive) override {
    torch::optim::serialize<NormedSgdParamState, NormedSgdOptions>(archive, *this);
  }

 private:
  // A text before LibTorch 2, an address since.
  template <typename Map>
  static typename Map::key_type key_of(const torch::Tensor& parameter, const Map& /*states*/) {
    void* const address = parameter.unsafeGetTensorImpl();
    if constexpr (std::is_same_v<typename Map::key_type, std::string>) {
      std::ostringstream text;
      text << address;
      return text.str();
    } else {
      return address;
    }
  }
};

/// One without `save` and `load`.
struct ForgetfulSgd : NormedSgd {
  using NormedSgd::NormedSgd;
  void save(torch::serialize::OutputArchive& /*archive*/) const override {}
};

}  // namespace lockstep
