#include "data/normalization.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "data/dataset.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

constexpr int64_t kSamples = 8'192;

struct Moments {
  double mean = 0;
  double deviation = 0;
};

// Exact sums of a channel's pixels.
class PixelSums {
 public:
  void add(std::span<const uint8_t> plane) {
    // Sums of this many squares fit into 32 bits, which vectorizes.
    constexpr size_t kPixelsAtATime = 65'536;
    for (size_t start = 0; start < plane.size(); start += kPixelsAtATime) {
      uint32_t sum = 0;
      uint32_t squares = 0;
      for (const uint32_t value :
           plane.subspan(start, std::min(kPixelsAtATime, plane.size() - start))) {
        sum += value;
        squares += value * value;
      }
      sum_ += sum;
      squares_ += squares;
    }
    count_ += plane.size();
  }

  Moments moments() const {
    using Wide = unsigned __int128;
    const auto spread = static_cast<double>(Wide{count_} * squares_ - Wide{sum_} * sum_);
    const auto n = static_cast<double>(count_);
    return {static_cast<double>(sum_) / n / 255, std::sqrt(spread) / n / 255};
  }

 private:
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  uint64_t squares_ = 0;
};

// A sum in eight lanes, each in the order of the elements, so that the result does not depend on
// how the compiler vectorizes.
class FixedOrderSum {
 public:
  template <typename Of>
  void add(std::span<const float> plane, Of of) {
    size_t i = 0;
    for (; i + lanes_.size() <= plane.size(); i += lanes_.size())
      for (size_t lane = 0; lane < lanes_.size(); ++lane) lanes_[lane] += of(plane[i + lane]);
    for (; i < plane.size(); ++i) lanes_[0] += of(plane[i]);
  }

  double total() const {
    double sum = 0;
    for (const double lane : lanes_) sum += lane;
    return sum;
  }

 private:
  std::array<double, 8> lanes_ = {};
};

// A channel of floats: the mean by a first pass over all samples, the deviation by a second.
struct FloatSums {
  std::optional<float> first;
  bool constant = true;
  int64_t count = 0;
  FixedOrderSum values;
  double mean = 0;
  FixedOrderSum spread;

  void add_values(std::span<const float> plane) {
    if (!first) first = plane.front();
    for (const float value : plane) constant &= value == *first;
    count += static_cast<int64_t>(plane.size());
    values.add(plane, [](float x) { return static_cast<double>(x); });
  }
  void end_first_pass() { mean = values.total() / static_cast<double>(count); }
  void add_spread(std::span<const float> plane) {
    spread.add(plane, [this](float x) { return (static_cast<double>(x) - mean) * (x - mean); });
  }
  Moments moments() const {
    // Rounding could give a constant channel a tiny deviation, and dividing by it would make noise.
    if (constant) return {*first, 0};
    return {mean, std::sqrt(spread.total() / static_cast<double>(count))};
  }
};

// All inputs of one type, channel by channel.
template <typename Sums>
using Channels = std::vector<std::vector<Sums>>;

// Calls `take(channel's sums, channel's values)` for every channel of every input of type T.
template <typename T, typename Sums, typename Take>
void for_each_plane(const Fields& fields, const SampleRoom& room, Channels<Sums>& channels,
                    Take take) {
  for (size_t i = 0; i < fields.inputs.size(); ++i) {
    if (channels[i].empty()) continue;
    const std::span<const T> values(reinterpret_cast<const T*>(room[i].data()),
                                    room[i].size() / sizeof(T));
    const size_t plane = values.size() / channels[i].size();
    for (size_t c = 0; c < channels[i].size(); ++c)
      take(channels[i][c], values.subspan(c * plane, plane));
  }
}

template <typename Sums>
Channels<Sums> channels_of_type(const Fields& fields, Type type) {
  Channels<Sums> channels(fields.inputs.size());
  for (size_t i = 0; i < channels.size(); ++i)
    if (const Field& input = fields.inputs[i]; is_quantity(input) && input.type == type)
      channels[i].resize(static_cast<size_t>(channels_of(input.shape)));
  return channels;
}

template <typename Sums>
bool any(const Channels<Sums>& channels) {
  return std::any_of(channels.begin(), channels.end(),
                     [](const auto& input) { return !input.empty(); });
}

template <typename Sums>
void append(const Channels<Sums>& channels, std::vector<Normalization>& to) {
  for (size_t i = 0; i < channels.size(); ++i)
    for (const Sums& channel : channels[i]) {
      const auto [mean, deviation] = channel.moments();
      to[i].mean.push_back(static_cast<float>(mean));
      const auto rounded = static_cast<float>(deviation);
      to[i].deviation.push_back(rounded > 0 ? rounded : 1.0F);
    }
}

// Bytes become x * scale + bias. Floats become (x - mean) * inverse, which avoids cancellation when
// the mean is far larger than the deviation.
struct ChannelScale {
  float scale = 1.0F / 255;
  float bias = 0;
  float mean = 0;
  float inverse = 1;

  ChannelScale() = default;
  ChannelScale(double by_mean, double by_deviation)
      : scale(static_cast<float>(1 / (255 * by_deviation))),
        bias(static_cast<float>(-by_mean / by_deviation)),
        mean(static_cast<float>(by_mean)),
        inverse(static_cast<float>(1 / by_deviation)) {}
};

void write_scaled(const ChannelScale& channel, const uint8_t* from, size_t count, float* to) {
  const float scale = channel.scale;
  const float bias = channel.bias;
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]) * scale + bias;
}

void write_scaled(const ChannelScale& channel, const float* from, size_t count, float* to) {
  const float mean = channel.mean;
  const float inverse = channel.inverse;
  for (size_t i = 0; i < count; ++i) to[i] = (from[i] - mean) * inverse;
}

template <typename T>
void write_planes(const std::vector<ChannelScale>& channels, const T* from, std::span<float> to) {
  const size_t plane = to.size() / channels.size();
  for (size_t c = 0; c < channels.size(); ++c)
    write_scaled(channels[c], from + c * plane, plane, to.data() + c * plane);
}

void check_fit(const Field& input, const Normalization& by) {
  const auto channels = static_cast<size_t>(channels_of(input.shape));
  if (by.mean.size() != by.deviation.size() || (!by.mean.empty() && by.mean.size() != channels))
    throw BadInput(
        "normalization has {} mean(s) and {} deviation(s): expected one for each of the {} "
        "channel(s) of '{}', or none",
        by.mean.size(), by.deviation.size(), channels, input.name);
  if (!by.mean.empty() && !is_quantity(input))
    throw BadInput("normalization of '{}': only f32, and u8 without categories, can be normalized",
                   input.name);
  for (const float deviation : by.deviation)
    if (!(deviation > 0))
      throw BadInput("normalization deviation {}: expected more than 0", deviation);
}

std::vector<ChannelScale> scales(const Field& input, const Normalization& by) {
  if (!is_quantity(input)) return {};
  std::vector<ChannelScale> channels(static_cast<size_t>(channels_of(input.shape)));
  for (size_t i = 0; i < by.mean.size(); ++i) channels[i] = {by.mean[i], by.deviation[i]};
  return channels;
}

class Normalized final : public DatasetLayer {
 public:
  Normalized(std::shared_ptr<const Dataset> dataset, const std::vector<Normalization>& by_input)
      : DatasetLayer(std::move(dataset)), fields_(below().fields()) {
    if (by_input.size() != fields_.inputs.size())
      throw BadInput("normalization of {} input(s): there are {}", by_input.size(),
                     fields_.inputs.size());
    for (size_t i = 0; i < by_input.size(); ++i) {
      Field& input = fields_.inputs[i];
      check_fit(input, by_input[i]);
      scales_.push_back(scales(input, by_input[i]));
      if (!scales_[i].empty()) input.type = Type::f32;
    }
  }

  const Fields& fields() const override { return fields_; }

  void write(int64_t index, const Sample& to) const override {
    const Fields& from = below().fields();
    std::vector<std::span<std::byte>> memory;
    std::vector<std::unique_ptr<uint8_t[]>> bytes(scales_.size());  // of inputs that become floats
    for (size_t i = 0; i < fields_.count(); ++i) {
      memory.push_back(to.bytes(i));
      if (i >= scales_.size() || scales_[i].empty() || from[i].type != Type::u8) continue;
      const size_t count = to.as<float>(i).size();
      bytes[i] = std::make_unique_for_overwrite<uint8_t[]>(count);
      memory[i] = std::as_writable_bytes(std::span(bytes[i].get(), count));
    }
    below().write(index, Sample(from, memory, to.epoch()));
    for (size_t i = 0; i < scales_.size(); ++i) {
      if (scales_[i].empty()) continue;
      const std::span<float> values = to.as<float>(i);
      if (bytes[i])
        write_planes(scales_[i], bytes[i].get(), values);
      else
        write_planes(scales_[i], values.data(), values);
    }
  }

 private:
  Fields fields_;                                  ///< after normalization
  std::vector<std::vector<ChannelScale>> scales_;  ///< by input; empty: left as it is
};

}  // namespace

int64_t channels_of(const Shape& shape) {
  return shape.size() == 3 ? shape[0] : 1;
}

bool is_quantity(const Field& input) {
  return input.type == Type::f32 || (input.type == Type::u8 && input.categories.empty());
}

std::vector<Normalization> measure_normalization(const Dataset& dataset) {
  const Fields& fields = dataset.fields();
  auto pixels = channels_of_type<PixelSums>(fields, Type::u8);
  auto floats = channels_of_type<FloatSums>(fields, Type::f32);
  const std::vector<int64_t> samples = spread_samples(dataset, kSamples);
  const SampleRoom room(fields);
  for (const int64_t sample : samples) {
    write_sample(dataset, sample, 0, room.memory());
    for_each_plane<uint8_t>(fields, room, pixels,
                            [](PixelSums& sums, auto plane) { sums.add(plane); });
    for_each_plane<float>(fields, room, floats,
                          [](FloatSums& sums, auto plane) { sums.add_values(plane); });
  }
  if (any(floats)) {
    for (auto& input : floats)
      for (FloatSums& channel : input) channel.end_first_pass();
    for (const int64_t sample : samples) {
      write_sample(dataset, sample, 0, room.memory());
      for_each_plane<float>(fields, room, floats,
                            [](FloatSums& sums, auto plane) { sums.add_spread(plane); });
    }
  }
  std::vector<Normalization> by_input(fields.inputs.size());
  append(pixels, by_input);
  append(floats, by_input);
  return by_input;
}

std::shared_ptr<const Dataset> normalized(std::shared_ptr<const Dataset> dataset,
                                          const std::vector<Normalization>& by_input) {
  return std::make_shared<Normalized>(std::move(dataset), by_input);
}

}  // namespace lockstep::data
