#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::parallel {

/// Detects changes of a model since its construction after which workers would silently train
/// different models.
class ModelWatch {
 public:
  explicit ModelWatch(const torch::nn::Module& model);

  /// Call it before every pass. Throws BadInput with the name of a parameter whose shape, type
  /// or device has changed, that was frozen or unfrozen, or of a parameter or buffer that was
  /// registered or removed. (One that is registered in a module that was there before is noticed
  /// after at most kPassesBetweenWalks passes.)
  void check();

  /// Call these around a forward and backward pass in which parameters must stay as they are.
  /// Throws BadInput with the name of a parameter that was changed in place or whose memory was
  /// replaced.
  void begin_pass();
  void end_pass() const;

  static constexpr int64_t kPassesBetweenWalks = 32;

 private:
  struct WatchedParameter {
    std::string name;
    torch::Tensor parameter;
    torch::Tensor before;  ///< shape and type alone
    torch::Device device;
    bool trained;
    // At the start of the pass.
    uint32_t version = 0;
    const void* memory = nullptr;
  };

  void check_parameters() const;
  void check_structure();

  const torch::nn::Module& model_;
  std::vector<WatchedParameter> parameters_;
  std::vector<std::string> tensors_;  ///< "parameter 'fc.weight'", "buffer 'bn.running_mean'", ...
  size_t modules_;                    ///< a hash of the tree of modules
  int64_t passes_ = 0;
};

}  // namespace lockstep::parallel
