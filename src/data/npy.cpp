#include "data/npy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "data/dataset.h"
#include "data/npy_header.h"
#include "lockstep/error.h"

namespace lockstep::data {

/// An element type, by its name in a header.
struct NpyType {
  const char* name;
  bool is_whole;
  void (*to_floats)(const std::byte* from, std::span<float> to);
  /// For whole numbers; nothing if the value is not a valid class.
  std::optional<int64_t> (*to_label)(const std::byte* from);
  /// For messages.
  std::string (*to_text)(const std::byte* from);
};

namespace {

static_assert(std::endian::native == std::endian::little, "elements are read as they lie");

// More classes than any data set has: a larger label is taken as a mistake, before memory is
// allocated.
constexpr int64_t kMostClasses = 1'000'000;

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

// Elements may be unaligned, since the header can have any length.
template <typename Element>
Element element_at(const std::byte* from) {
  Element element;
  std::memcpy(&element, from, sizeof element);
  return element;
}

template <typename Element>
void to_floats(const std::byte* from, std::span<float> to) {
  for (size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<float>(element_at<Element>(from + i * sizeof(Element)));
}

template <typename Element>
std::optional<int64_t> to_label(const std::byte* from) {
  const auto element = element_at<Element>(from);
  if (std::cmp_less(element, 0) || std::cmp_greater_equal(element, kMostClasses))
    return std::nullopt;
  return static_cast<int64_t>(element);
}

template <typename Element>
std::string to_text(const std::byte* from) {
  return fmt::format("{}", element_at<Element>(from));
}

template <typename Element>
constexpr NpyType number(const char* name) {
  if constexpr (std::is_integral_v<Element>)
    return {name, true, to_floats<Element>, to_label<Element>, to_text<Element>};
  else
    return {name, false, to_floats<Element>, nullptr, nullptr};
}

constexpr NpyType kTypes[] = {
    number<uint8_t>("u1"),  number<Half>("f2"),     number<float>("f4"),    number<double>("f8"),
    number<int8_t>("i1"),   number<int16_t>("i2"),  number<int32_t>("i4"),  number<int64_t>("i8"),
    number<uint16_t>("u2"), number<uint32_t>("u4"), number<uint64_t>("u8"), number<uint8_t>("b1")};

const NpyType* type_named(const std::string& name, const std::filesystem::path& path) {
  for (const NpyType& type : kTypes)
    if (name == type.name) return &type;
  std::vector<std::string> names;
  for (const NpyType& type : kTypes) names.emplace_back(type.name);
  throw BadInput("{}: dtype '{}': expected {}; save x.astype('float32')", path.string(), name,
                 fmt::join(names, ", "));
}

}  // namespace

NpyArray::NpyArray(std::filesystem::path path) : path_(std::move(path)) {
  InputFile file(path_);
  const NpyHeader header = read_npy_header(file);
  type_ = type_named(header.type, path_);
  if (header.shape.empty() || header.count == 0)
    throw BadInput("{}: shape ({}) has no samples; expected (samples, ...)", path_.string(),
                   to_string(header.shape));
  samples_ = header.shape[0];
  shape_.assign(header.shape.begin() + 1, header.shape.end());
  sample_bytes_ = static_cast<size_t>(header.bytes / samples_);
  elements_ = file.take_rest(header.bytes);
}

bool NpyArray::has_bytes() const {
  return type_->name == std::string_view("u1");
}

bool NpyArray::has_whole_numbers() const {
  return type_->is_whole;
}

const std::byte* NpyArray::place(int64_t sample) const {
  return elements_.data() + static_cast<size_t>(sample) * sample_bytes_;
}

void NpyArray::write(int64_t sample, std::span<float> to) const {
  type_->to_floats(place(sample), to);
  const auto odd = std::find_if_not(to.begin(), to.end(), [](float x) { return std::isfinite(x); });
  if (odd != to.end())
    throw BadInput(
        "{}: {} in sample {}: expected finite numbers; replace them, as np.nan_to_num(x) does, or "
        "drop the sample",
        path_.string(), *odd, sample);
}

void NpyArray::write(int64_t sample, std::span<uint8_t> to) const {
  std::memcpy(to.data(), place(sample), to.size());
}

std::vector<int64_t> NpyArray::labels() const {
  if (elements(shape_) != 1)
    throw BadInput(
        "{}: shape ({} x {}): expected one label per sample; save y.argmax(1) if the labels are "
        "one-hot",
        path_.string(), samples_, to_string(shape_));
  if (!has_whole_numbers())
    throw BadInput("{}: dtype '{}': expected whole numbers; save y.astype('int64')", path_.string(),
                   type_->name);
  std::vector<int64_t> labels(static_cast<size_t>(samples_));
  for (int64_t i = 0; i < samples_; ++i) {
    const std::optional<int64_t> label = type_->to_label(place(i));
    if (!label)
      throw BadInput(
          "{}: label {} of sample {}: expected classes numbered from 0 to at most {}; number them "
          "with np.unique(y, return_inverse=True)[1], or set data.options.targets = \"numbers\" "
          "for regression",
          path_.string(), type_->to_text(place(i)), i, kMostClasses - 1);
    labels[static_cast<size_t>(i)] = *label;
  }
  return labels;
}

}  // namespace lockstep::data
