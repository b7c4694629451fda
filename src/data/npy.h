#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "data/input_file.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

struct NpyType;

/// The array of an .npy file, with samples along its first dimension. Elements are converted when
/// they are read, so that a memory-mapped file may be larger than memory.
class NpyArray {
 public:
  /// Throws BadInput naming the file.
  explicit NpyArray(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  int64_t samples() const { return samples_; }
  /// The shape of one sample: {} if the array has one dimension.
  const Shape& shape() const { return shape_; }
  bool has_bytes() const;          ///< uint8: pixels
  bool has_whole_numbers() const;  ///< of any size

  /// Writes one sample's elements. Throws BadInput with the sample's number if one is not finite.
  void write(int64_t sample, std::span<float> to) const;
  /// For has_bytes().
  void write(int64_t sample, std::span<uint8_t> to) const;

  /// The label of each sample. Throws BadInput unless each sample is one whole number from 0.
  std::vector<int64_t> labels() const;

 private:
  const std::byte* place(int64_t sample) const;

  const std::filesystem::path path_;
  const NpyType* type_ = nullptr;
  int64_t samples_ = 0;
  Shape shape_;
  size_t sample_bytes_ = 0;
  HeldBytes elements_;
};

}  // namespace lockstep::data
