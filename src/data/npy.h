#pragma once

#include <cstdint>
#include <filesystem>
#include <variant>
#include <vector>

#include "data/dataset.h"
#include "data/source.h"

namespace lockstep::data {

/// The samples of an x.npy: bytes stay bytes, any other number becomes a float.
struct NpySamples {
  int64_t count = 0;
  Shape shape;  ///< of one sample
  std::variant<std::vector<uint8_t>, std::vector<float>> values;
};

/// Throws BadInput naming the file and, where a value is not finite, the sample.
NpySamples read_npy_samples(const std::filesystem::path& path);

/// A y.npy: one number of at least 0 for each sample. Throws BadInput.
std::vector<int32_t> read_npy_labels(const std::filesystem::path& path);

/// x.npy and y.npy of a folder, and x_test.npy and y_test.npy where they are.
Splits load_npy(const std::filesystem::path& folder, const SourceOptions& options);

}  // namespace lockstep::data
