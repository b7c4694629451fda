#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/dataset.h"

namespace lockstep::data {

/// Random changes to training images. The random numbers are keyed by (seed, epoch, sample), so
/// that a sample is changed in the same way whichever worker or thread reads it.
struct Augment {
  bool flip = false;  ///< mirror left-right with probability one half
  /// Shift by up to this many pixels in each direction; uncovered pixels become 0 (before
  /// normalization).
  int64_t shift = 0;

  bool none() const { return !flip && shift == 0; }
};

/// The change of one sample in one epoch: it is mirrored first, then shifted.
struct Change {
  bool flip = false;
  int64_t right = 0;
  int64_t down = 0;

  bool none() const { return !flip && right == 0 && down == 0; }
};

Change draw_change(const Augment& augment, uint64_t seed, int64_t epoch, int64_t sample);

/// Copies an image of {channels, height, width} with the change; uncovered pixels become 0. For
/// uint8_t and float.
template <typename T>
void copy_changed(const Change& change, const Shape& shape, const T* from, T* to);

/// The data set with its images (inputs of u8 or f32) changed. Throws BadInput if an input is not
/// an image, or is too small for the shift.
std::shared_ptr<const Dataset> augmented(std::shared_ptr<const Dataset> dataset,
                                         const Augment& augment, uint64_t seed);

}  // namespace lockstep::data
