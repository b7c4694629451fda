#pragma once

#include <filesystem>

#include "data/npy.h"
#include "lockstep/dataset.h"
#include "lockstep/options.h"

namespace lockstep::data {

/// The order of an array's dimensions: channels_last is (N, H, W, C) for images and (N, T, H, W, C)
/// for videos.
enum class ChannelOrder { channels_first, channels_last };

/// The option `layout` of a data set. Throws BadInput.
ChannelOrder layout_from(const Options& options);

/// The samples of an .npy array as inputs of a model, channels first: u8 for bytes, else f32. An
/// array with one number per sample has rows of one feature.
class NpyInputs {
 public:
  NpyInputs(const std::filesystem::path& path, ChannelOrder layout);

  int64_t samples() const { return x_.samples(); }
  const NpyArray& array() const { return x_; }
  Type type() const { return x_.has_bytes() ? Type::u8 : Type::f32; }
  /// Of a sample.
  const Shape& shape() const { return shape_; }
  /// The shape that a sample of shape `shape` has in a file with the same order of channels.
  Shape shape_in_file(const Shape& shape) const;
  /// Writes a sample to field 0.
  void write(int64_t index, const Sample& to) const;

 private:
  template <typename T>
  void write_as(int64_t index, std::span<T> to) const;

  const NpyArray x_;
  const ChannelOrder layout_;
  const bool moves_channels_;
  const Shape shape_;
};

}  // namespace lockstep::data
