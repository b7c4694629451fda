#include <algorithm>
#include <string>
#include <utility>

#include "data/hold_out.h"
#include "data/npy.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// {..., height, width, channels} -> {..., channels, height, width}, one image after another.
template <typename T>
std::vector<T> channels_to_front(const std::vector<T>& values, int64_t pixels, int64_t channels) {
  std::vector<T> moved(values.size());
  const auto image = static_cast<size_t>(pixels * channels);
  for (size_t start = 0; start < values.size(); start += image)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = 0; p < pixels; ++p)
        moved[start + static_cast<size_t>(c * pixels + p)] =
            values[start + static_cast<size_t>(p * channels + c)];
  return moved;
}

void put_channels_first(NpySamples& samples) {
  // Only images (3-D) and videos (4-D) have channels; a row or a series is left as it is.
  const size_t rank = samples.shape.size();
  if (rank != 3 && rank != 4) return;
  const int64_t channels = samples.shape[rank - 1];
  const int64_t pixels = samples.shape[rank - 2] * samples.shape[rank - 3];
  std::visit([&](auto& values) { values = channels_to_front(values, pixels, channels); },
             samples.values);
  std::rotate(samples.shape.end() - 3, samples.shape.end() - 1, samples.shape.end());
}

Dataset read_pair(const std::filesystem::path& x, const std::filesystem::path& y, Layout layout) {
  NpySamples samples = read_npy_samples(x);
  Dataset dataset;
  dataset.labels = read_npy_labels(y);
  if (samples.count != dataset.size())
    throw BadInput(
        "{} has {} samples, {} has {} labels: expected as many; save both again from "
        "the same data",
        x.string(), samples.count, y.string(), dataset.size());
  if (layout == Layout::channels_last) put_channels_first(samples);
  dataset.shape = std::move(samples.shape);
  dataset.values = std::move(samples.values);
  return dataset;
}

std::vector<std::string> numbered_classes(int32_t largest) {
  std::vector<std::string> names;
  for (int32_t i = 0; i <= largest; ++i) names.push_back(std::to_string(i));
  return names;
}

int32_t largest_label(const Dataset& dataset) {
  return *std::max_element(dataset.labels.begin(), dataset.labels.end());
}

void require_alike(const std::filesystem::path& folder, const Dataset& train, const Dataset& test) {
  if (train.shape != test.shape)
    throw BadInput("{}: samples of x.npy are {}, of x_test.npy {}: expected the same shape",
                   folder.string(), to_string(train.shape), to_string(test.shape));
  // Bytes are read as 0..1 and floats as they are, so a mixture would differ by 255 times.
  if (train.values.index() != test.values.index())
    throw BadInput(
        "{}: one of x.npy and x_test.npy is uint8, the other is not: expected the same "
        "dtype; save both as uint8 or both as float32",
        folder.string());
}

}  // namespace

Splits load_npy(const std::filesystem::path& folder, const SourceOptions& options) {
  Dataset train = read_pair(folder / "x.npy", folder / "y.npy", options.layout);
  const bool has_x = std::filesystem::exists(folder / "x_test.npy");
  const bool has_y = std::filesystem::exists(folder / "y_test.npy");
  if (has_x != has_y)
    throw BadInput(
        "{}: has {} but not {}; add it, or take the other away to hold out a part of "
        "x.npy",
        folder.string(), has_x ? "x_test.npy" : "y_test.npy", has_x ? "y_test.npy" : "x_test.npy");
  if (!has_x) {
    train.class_names = numbered_classes(largest_label(train));
    return hold_out(train, options.test_fraction, static_cast<uint64_t>(options.hold_out_seed));
  }
  Splits splits;
  splits.train = std::move(train);
  splits.test = read_pair(folder / "x_test.npy", folder / "y_test.npy", options.layout);
  require_alike(folder, splits.train, splits.test);
  splits.train.class_names =
      numbered_classes(std::max(largest_label(splits.train), largest_label(splits.test)));
  splits.test.class_names = splits.train.class_names;
  return splits;
}

}  // namespace lockstep::data
