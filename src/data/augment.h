#pragma once

#include <cstdint>

#include "data/dataset.h"
#include "data/loader.h"

namespace lockstep::data {

/// What is done to one sample in one epoch: mirrored first, then moved.
struct Change {
  bool flip = false;
  int64_t right = 0;
  int64_t down = 0;

  bool none() const { return !flip && right == 0 && down == 0; }
};

Change draw_change(const Augment& augment, uint64_t seed, int64_t epoch, int64_t sample);

/// Copies an image of {channels, height, width} changed; what is uncovered is 0.
/// For uint8_t and float.
template <typename T>
void copy_changed(const Change& change, const Shape& shape, const T* from, T* to);

}  // namespace lockstep::data
