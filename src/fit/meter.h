#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/range.h"
#include "pipeline/split.h"

namespace lockstep::fit {

/// A layer of a model; of a model that cannot be divided, all of it. In bytes; what layers share is
/// the first one's.
struct LayerSize {
  std::string name;
  int64_t state = 0;    ///< of parameters and buffers, as they are in training
  int64_t trained = 0;  ///< of those, the parameters that are trained
};

/// What is known of a model before anything is measured.
struct ModelFacts {
  std::vector<LayerSize> layers;  ///< in the model's order
  std::vector<Range> blocks;      ///< layers that a stage has together: see parallel::blocks_of
  std::string undivided = {};     ///< why it cannot be divided into stages; empty if it can
  std::string unrecomputed = {};  ///< why its layers cannot be computed again; empty if they can
  int64_t bytes_per_sample = 0;   ///< of inputs and targets
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
  int64_t peak = 0;  ///< bytes of a device's memory, at most, besides that
  int64_t held = 0;  ///< bytes between the forward and the backward pass
  int64_t sent = 0;  ///< bytes of its outputs
  /// Bytes of the state of random numbers, where it has drawn some, for the layers after these.
  int64_t drawn = 0;
  double forward = 0;   ///< seconds
  double backward = 0;  ///< seconds
  double waited = 0;    ///< seconds of both in which this process had no processor
};

/// What came of measuring a pass.
struct MeasuredPass {
  std::optional<PassCost> cost;  ///< nothing: it needs more than `room`
  int64_t room = 0;              ///< bytes that it could have
};

/// Measures passes on a device whose memory is counted.
class Meter {
 public:
  virtual ~Meter() = default;

  virtual const ModelFacts& model() const = 0;

  /// With `room` bytes at most, and less where this host has less. Throws ModelError if the model
  /// throws for so many samples or in this precision.
  virtual MeasuredPass measure(const Pass& pass, int64_t room) = 0;
  /// By layer: what its share of a pass through all layers costs, about. The state is only what
  /// kernels keep. Throws ModelError as `measure` does.
  virtual std::vector<pipeline::LayerCost> layer_costs(const Pass& pass) = 0;
  /// Seconds of the optimizer's update of so many bytes of parameters.
  virtual double update_seconds(int64_t bytes) = 0;
};

}  // namespace lockstep::fit
