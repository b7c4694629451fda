#include "data/npy_inputs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// {..., height, width, channels} -> {..., channels, height, width}, one image after another.
template <typename T>
void channels_to_front(std::span<const T> from, const Shape& shape, std::span<T> to) {
  const size_t rank = shape.size();  // `shape` is that of the result
  const auto channels = static_cast<size_t>(shape[rank - 3]);
  const auto pixels = static_cast<size_t>(shape[rank - 2] * shape[rank - 1]);
  for (size_t start = 0; start < from.size(); start += pixels * channels)
    for (size_t c = 0; c < channels; ++c)
      for (size_t p = 0; p < pixels; ++p)
        to[start + c * pixels + p] = from[start + p * channels + c];
}

bool has_channels_last(const Shape& shape, ChannelOrder layout) {
  return layout == ChannelOrder::channels_last && (shape.size() == 3 || shape.size() == 4);
}

Shape shape_of(const NpyArray& x, bool moves_channels) {
  Shape shape = x.shape().empty() ? Shape{1} : x.shape();
  if (moves_channels) std::rotate(shape.end() - 3, shape.end() - 1, shape.end());
  return shape;
}

}  // namespace

ChannelOrder layout_from(const Options& options) {
  const std::string name = options.text("layout", "channels_first");
  if (name == "channels_first") return ChannelOrder::channels_first;
  if (name == "channels_last") return ChannelOrder::channels_last;
  throw BadInput("data.options.layout = \"{}\": expected channels_first or channels_last", name);
}

NpyInputs::NpyInputs(const std::filesystem::path& path, ChannelOrder layout)
    : x_(path),
      layout_(layout),
      moves_channels_(has_channels_last(x_.shape(), layout)),
      shape_(shape_of(x_, moves_channels_)) {}

Shape NpyInputs::shape_in_file(const Shape& shape) const {
  Shape in_file = shape;
  if (has_channels_last(shape, layout_))
    std::rotate(in_file.end() - 3, in_file.end() - 2, in_file.end());
  return in_file;
}

void NpyInputs::write(int64_t index, const Sample& to) const {
  if (x_.has_bytes())
    write_as(index, to.as<uint8_t>(0));
  else
    write_as(index, to.as<float>(0));
}

template <typename T>
void NpyInputs::write_as(int64_t index, std::span<T> to) const {
  if (!moves_channels_) return x_.write(index, to);
  std::vector<T> as_they_lie(to.size());
  x_.write(index, std::span<T>(as_they_lie));
  channels_to_front<T>(as_they_lie, shape_, to);
}

}  // namespace lockstep::data
