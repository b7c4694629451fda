#include "data/npy.h"

#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "data/input_file.h"
#include "data/npy_header.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are read as they lie");

// More classes than any data set has: a larger label is a mistake, not a reason to ask for memory.
constexpr int64_t kMostClasses = 1'000'000;
constexpr int64_t kElementsAtATime = 1 << 16;

// IEEE 754 binary16.
struct Half {
  uint16_t bits;

  explicit operator float() const {
    const int exponent = bits >> 10 & 31;
    const int fraction = bits & 1023;
    float magnitude = 0;
    if (exponent == 31)
      magnitude = fraction == 0 ? INFINITY : NAN;
    else if (exponent == 0)
      magnitude = std::ldexp(static_cast<float>(fraction), -24);
    else
      magnitude = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
};

// Calls `take(index, element)` for each element in turn.
template <typename Element, typename Take>
void for_each_element(InputFile& file, int64_t count, Take take) {
  std::vector<Element> piece(static_cast<size_t>(std::min(count, kElementsAtATime)));
  for (int64_t done = 0; done < count;) {
    const int64_t now = std::min(kElementsAtATime, count - done);
    file.read(std::as_writable_bytes(std::span(piece).first(static_cast<size_t>(now))));
    for (int64_t i = 0; i < now; ++i) take(done + i, piece[static_cast<size_t>(i)]);
    done += now;
  }
}

template <typename Element>
std::vector<float> read_floats(InputFile& file, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for_each_element<Element>(file, count, [&](int64_t index, Element element) {
    values[static_cast<size_t>(index)] = static_cast<float>(element);
  });
  return values;
}

std::vector<uint8_t> read_bytes(InputFile& file, int64_t count) {
  std::vector<uint8_t> values(static_cast<size_t>(count));
  file.read(writable_bytes(values));
  return values;
}

std::vector<float> read_as_floats(InputFile& file, const NpyHeader& header) {
  if (header.type == "f4") return read_floats<float>(file, header.count);
  if (header.type == "f8") return read_floats<double>(file, header.count);
  if (header.type == "f2") return read_floats<Half>(file, header.count);
  if (header.type == "i1") return read_floats<int8_t>(file, header.count);
  if (header.type == "i2") return read_floats<int16_t>(file, header.count);
  if (header.type == "i4") return read_floats<int32_t>(file, header.count);
  if (header.type == "i8") return read_floats<int64_t>(file, header.count);
  if (header.type == "u2") return read_floats<uint16_t>(file, header.count);
  if (header.type == "u4") return read_floats<uint32_t>(file, header.count);
  if (header.type == "b1") return read_floats<uint8_t>(file, header.count);
  throw BadInput(
      "{}: dtype '{}': expected u1, f2, f4, f8, i1, i2, i4, i8, u2, u4 or b1; save "
      "x.astype('float32')",
      file.path().string(), header.type);
}

void require_finite(const NpySamples& samples, const std::filesystem::path& path) {
  const auto& values = std::get<std::vector<float>>(samples.values);
  const auto per_sample = static_cast<size_t>(elements(samples.shape));
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      throw BadInput(
          "{}: {} in sample {}: expected finite numbers; clean them, as "
          "np.nan_to_num(x) does, or drop the sample",
          path.string(), values[i], i / per_sample);
}

template <typename Element>
std::vector<int32_t> read_classes(InputFile& file, int64_t count) {
  std::vector<int32_t> labels(static_cast<size_t>(count));
  for_each_element<Element>(file, count, [&](int64_t index, Element label) {
    if (std::cmp_less(label, 0) || std::cmp_greater_equal(label, kMostClasses))
      throw BadInput(
          "{}: label {} of sample {}: expected classes numbered from 0 to at most {}; "
          "number them with np.unique(y, return_inverse=True)[1]",
          file.path().string(), label, index, kMostClasses - 1);
    labels[static_cast<size_t>(index)] = static_cast<int32_t>(static_cast<uint32_t>(label));
  });
  return labels;
}

std::vector<int32_t> read_any_classes(InputFile& file, const NpyHeader& header) {
  if (header.type == "i8") return read_classes<int64_t>(file, header.count);
  if (header.type == "i4") return read_classes<int32_t>(file, header.count);
  if (header.type == "i2") return read_classes<int16_t>(file, header.count);
  if (header.type == "i1") return read_classes<int8_t>(file, header.count);
  if (header.type == "u8") return read_classes<uint64_t>(file, header.count);
  if (header.type == "u4") return read_classes<uint32_t>(file, header.count);
  if (header.type == "u2") return read_classes<uint16_t>(file, header.count);
  if (header.type == "u1" || header.type == "b1") return read_classes<uint8_t>(file, header.count);
  throw BadInput("{}: dtype '{}': expected whole numbers; save y.astype('int64')",
                 file.path().string(), header.type);
}

}  // namespace

NpySamples read_npy_samples(const std::filesystem::path& path) {
  InputFile file(path);
  NpyHeader header = read_npy_header(file);
  if (header.shape.empty() || header.count == 0)
    throw BadInput("{}: shape ({}) holds no samples; expected (samples, ...)", path.string(),
                   to_string(header.shape));
  NpySamples samples;
  samples.count = header.shape[0];
  samples.shape.assign(header.shape.begin() + 1, header.shape.end());
  if (samples.shape.empty()) samples.shape = {1};
  if (header.type == "u1") {
    samples.values = read_bytes(file, header.count);
  } else {
    samples.values = read_as_floats(file, header);
    require_finite(samples, path);
  }
  file.expect_end();
  return samples;
}

std::vector<int32_t> read_npy_labels(const std::filesystem::path& path) {
  InputFile file(path);
  const NpyHeader header = read_npy_header(file);
  if (header.shape.size() != 1)
    throw BadInput(
        "{}: shape ({}): expected one label a sample; save y.ravel(), or "
        "np.argmax(y, axis=1) where the labels are one-hot",
        path.string(), to_string(header.shape));
  std::vector<int32_t> labels = read_any_classes(file, header);
  file.expect_end();
  return labels;
}

}  // namespace lockstep::data
