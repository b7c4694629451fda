#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/dataset.h"

namespace lockstep::data {

/// y = (x - mean) / deviation, per channel: the first dimension of an image (3-D); any other input
/// has one channel. Empty: bytes are read as 0..1 and floats as they are.
struct Normalization {
  std::vector<float> mean;
  std::vector<float> deviation;
};

/// The channels of an input that are normalized apart.
int64_t channels_of(const Shape& shape);

/// Whether an input's values are quantities, which are normalized: floats, and bytes that do not
/// stand for categories.
bool is_quantity(const Field& input);

/// Mean and deviation of every input's channels in epoch 0, the same to the last bit every time,
/// from all samples or, where they are more than 2 GiB, from 8,192 of them, evenly spread. A
/// channel that never changes gets a deviation of 1; an input that is no quantity, nothing.
std::vector<Normalization> measure_normalization(const Dataset& dataset);

/// The data set with its quantities as normalized floats. `by_input` has one for each input. Throws
/// BadInput where they do not fit.
std::shared_ptr<const Dataset> normalized(std::shared_ptr<const Dataset> dataset,
                                          const std::vector<Normalization>& by_input);

}  // namespace lockstep::data
