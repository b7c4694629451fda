#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/dataset.h"

namespace lockstep::data {

/// y = (x - mean) / deviation, per channel. Inputs with three dimensions have their first dimension
/// as channels, others have one channel. Empty: bytes are scaled to 0..1, and floats are unchanged.
struct Normalization {
  std::vector<float> mean;
  std::vector<float> deviation;
};

/// The number of channels of an input.
int64_t channels_of(const Shape& shape);

/// Whether an input is normalized: f32, and u8 without categories.
bool is_quantity(const Field& input);

/// Mean and deviation of every input's channels in epoch 0, the same bits every time, from all
/// samples or, if the data set has more than 2 GiB, from 8,192 evenly spread ones. A constant
/// channel gets a deviation of 1; inputs that are not normalized get empty ones.
std::vector<Normalization> measure_normalization(const Dataset& dataset);

/// The data set with its inputs normalized, as f32. `by_input` has one element per input. Throws
/// BadInput if they do not match.
std::shared_ptr<const Dataset> normalized(std::shared_ptr<const Dataset> dataset,
                                          const std::vector<Normalization>& by_input);

}  // namespace lockstep::data
