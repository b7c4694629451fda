#pragma once

#include <torch/nn/module.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace lockstep::parallel {

enum class Mode { training, evaluation };

/// All modules of a model in one mode. When this is destroyed, each is in the one that it had,
/// which may be another than its model's: a BatchNorm that its user keeps in evaluation mode.
class InMode {
 public:
  InMode(torch::nn::Module& model, Mode mode) : modules_(model.modules()) {
    for (const auto& module : modules_) trained_.push_back(module->is_training());
    model.train(mode == Mode::training);
  }
  InMode(const InMode&) = delete;
  InMode& operator=(const InMode&) = delete;
  ~InMode() {  // a module comes before those that are inside it
    for (size_t i = 0; i < modules_.size(); ++i) modules_[i]->train(trained_[i]);
  }

 private:
  const std::vector<std::shared_ptr<torch::nn::Module>> modules_;
  std::vector<bool> trained_;
};

}  // namespace lockstep::parallel
