#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/range.h"
#include "pipeline/split.h"

namespace lockstep::fit {

/// A layer of a model; of a model that cannot be divided, all of it. In bytes.
struct LayerSize {
  std::string name;
  int64_t state = 0;    ///< parameters and buffers
  int64_t trained = 0;  ///< the parameters that are trained
};

/// A forward and a backward pass of some layers over some samples.
struct Pass {
  Range layers;
  int64_t samples = 1;
  bool recompute = false;          ///< whether only inputs of layers are kept between the two
  std::string precision = "fp32";  ///< of the recipe's train.precision

  bool operator==(const Pass&) const = default;
};

/// What a pass needs.
struct PassCost {
  /// Bytes that its kernels keep from pass to pass, such as weights in another order.
  int64_t kept = 0;
  int64_t peak = 0;     ///< bytes of a device's memory, at most, besides that
  int64_t held = 0;     ///< bytes between the forward and the backward pass
  int64_t sent = 0;     ///< bytes of its outputs
  double forward = 0;   ///< seconds
  double backward = 0;  ///< seconds
};

/// Measures passes on a device whose memory is counted.
class Meter {
 public:
  virtual ~Meter() = default;

  /// In the model's order. If there is one, the model cannot be divided.
  virtual const std::vector<LayerSize>& layers() const = 0;
  /// Why the model cannot be divided; empty if it can.
  virtual const std::string& undivided() const = 0;
  /// What a sample takes of a device's memory while its batch waits there: 0 on the CPU.
  virtual int64_t bytes_per_sample() const = 0;

  /// Nothing if it needs more than `room` bytes.
  virtual std::optional<PassCost> measure(const Pass& pass, int64_t room) = 0;
  /// By layer: what its share of a pass through all layers costs, about. The state is only what
  /// kernels keep.
  virtual std::vector<pipeline::LayerCost> layer_costs(const Pass& pass) = 0;
  /// Seconds of the optimizer's update of so many bytes of parameters.
  virtual double update_seconds(int64_t bytes) = 0;
};

}  // namespace lockstep::fit
