#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/dataset.h"

namespace lockstep::data {

/// How one sample is mixed with another in one epoch.
struct Mix {
  int64_t partner;
  double own;  ///< the sample's share of the result, 0.5 to 1
};

/// Draws a partner out of `size` samples, and the share from the Beta distribution with both
/// parameters `alpha` (more than 0, at most 1). The random numbers are keyed by (seed, epoch,
/// sample).
Mix draw_mix(double alpha, int64_t size, uint64_t seed, int64_t epoch, int64_t sample);

/// The data set with every sample mixed with another one: inputs and numeric targets become
/// weighted means. A class label becomes the probabilities of all classes (f32): the share for its
/// class, the rest for the partner's. With alpha 0, the data set itself. Throws BadInput if an
/// input or a target cannot be mixed.
std::shared_ptr<const Dataset> mixed_up(std::shared_ptr<const Dataset> dataset, double alpha,
                                        uint64_t seed);

}  // namespace lockstep::data
