#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "data/augment.h"
#include "data/dataset.h"
#include "data/loader.h"

namespace lockstep::data {

/// Writes samples as a model reads them: changed, normalized floats. Allocates only when made.
class SampleWriter {
 public:
  /// The data set must outlive it. Throws BadInput when the options do not fit the data set.
  SampleWriter(const Dataset& dataset, const LoaderOptions& options);

  void write(int64_t epoch, int64_t sample, float* to);

 private:
  // Bytes become x * scale + bias; floats (x - mean) * inverse, which does not cancel when the
  // mean is far larger than the deviation.
  struct Channel {
    float scale = 1;
    float bias = 0;
    float mean = 0;
    float inverse = 1;
  };

  static void normalize(const Channel& channel, const uint8_t* from, int64_t count, float* to);
  static void normalize(const Channel& channel, const float* from, int64_t count, float* to);
  template <typename T>
  void write_from(const std::vector<T>& values, int64_t epoch, int64_t sample, float* to);

  const Dataset& dataset_;
  Augment augment_;
  uint64_t seed_;
  int64_t elements_;
  std::vector<Channel> channels_;
  std::variant<std::vector<uint8_t>, std::vector<float>> changed_;  // one sample
};

}  // namespace lockstep::data
