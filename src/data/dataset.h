#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace lockstep::data {

/// The dimensions of one sample, channels first: {1, 28, 28} for a grey image, {features} for a
/// row, {steps, features} for a series, {frames, channels, height, width} for a video.
using Shape = std::vector<int64_t>;

int64_t elements(const Shape& shape);

/// The product of what a file's header says its dimensions are, to be checked against the file
/// before memory is asked for; nothing when one is negative or the product does not fit.
std::optional<int64_t> checked_elements(std::span<const int64_t> dimensions);

/// "1 x 28 x 28".
std::string to_string(const Shape& shape);

/// Samples of one shape held in memory one after another, each with a class label.
/// Bytes are pixels (0..255, read as 0..1); floats are read as they are.
struct Dataset {
  Shape shape;
  std::vector<std::string> class_names;
  std::variant<std::vector<uint8_t>, std::vector<float>> values;
  std::vector<int32_t> labels;

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  int64_t classes() const { return static_cast<int64_t>(class_names.size()); }
};

/// What a run trains on and what it is judged by.
struct Splits {
  Dataset train;
  Dataset test;
  /// sha256 over shapes, values and labels of both: equal digests, equal data.
  std::string digest;
};

/// The `digest` of two splits.
std::string digest_of(const Dataset& train, const Dataset& test);

}  // namespace lockstep::data
