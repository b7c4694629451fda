#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/dataset.h"

namespace lockstep::data {

/// Random changes to a training image. The numbers are keyed by (seed, epoch, sample), so a sample
/// looks the same in an epoch whichever worker or thread reads it.
struct Augment {
  bool flip = false;  ///< mirror left-right with probability one half
  /// Move by up to this many pixels each way; what is uncovered is black: 0 before normalization.
  int64_t shift = 0;

  bool none() const { return !flip && shift == 0; }
};

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

/// The data set with its images changed: inputs of u8 or f32. Throws BadInput where it has an input
/// that is no image, or one too small to be moved so far.
std::shared_ptr<const Dataset> augmented(std::shared_ptr<const Dataset> dataset,
                                         const Augment& augment, uint64_t seed);

}  // namespace lockstep::data
