#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/dataset.h"

namespace lockstep::data {

/// Random changes to training images. The random numbers are keyed by (seed, epoch, sample), so
/// that a sample is changed in the same way whichever worker or thread reads it.
struct Augment {
  bool flip = false;  ///< mirror left-right with probability one half
  /// Shift by up to this many pixels in each direction: a random crop of the padded image.
  int64_t shift = 0;
  /// What uncovered pixels become: a name of fill_names().
  std::string fill = "zeros";
  /// Set a square of this side, anywhere in the image, to 0 (before normalization).
  int64_t cutout = 0;

  bool none() const { return !flip && shift == 0 && cutout == 0; }
};

/// What pixels become that a shift uncovers: 0 (before normalization), the nearest pixel, or the
/// image mirrored at its edge.
enum class Fill { zeros, edge, reflect };
/// In the order of Fill.
const std::vector<std::string>& fill_names();

/// The change of one sample in one epoch: it is mirrored first, then shifted, then cut out.
struct Change {
  bool flip = false;
  int64_t right = 0;
  int64_t down = 0;
  Fill fill = Fill::zeros;
  /// A square with this middle; none if `cutout` is 0. It may reach past the image's edges.
  int64_t cutout = 0;
  int64_t cut_x = 0;
  int64_t cut_y = 0;

  bool none() const { return !flip && right == 0 && down == 0 && cutout == 0; }
};

/// For images of {channels, height, width}.
Change draw_change(const Augment& augment, const Shape& shape, uint64_t seed, int64_t epoch,
                   int64_t sample);

/// Copies an image of {channels, height, width} with the change. For uint8_t and float.
template <typename T>
void copy_changed(const Change& change, const Shape& shape, const T* from, T* to);

/// The data set with its images (inputs of u8 or f32) changed. Throws BadInput if an input is not
/// an image, or is too small for the shift.
std::shared_ptr<const Dataset> augmented(std::shared_ptr<const Dataset> dataset,
                                         const Augment& augment, uint64_t seed);

}  // namespace lockstep::data
