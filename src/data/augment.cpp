#include "data/augment.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "data/dataset.h"
#include "data/normalization.h"
#include "device/random.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

void check_input(const Field& input, const Augment& augment) {
  if (!is_quantity(input) || input.shape.size() != 3)
    throw BadInput(
        "data.{}: samples of shape {} are not images (channels x height x width); leave it out",
        augment.flip        ? "flip"
        : augment.shift > 0 ? "shift"
                            : "cutout",
        to_string(input.shape));
  const int64_t side = std::min(input.shape[1], input.shape[2]);
  if (augment.shift < 0 || augment.shift >= side)
    throw BadInput("data.shift = {}: expected 0 to {}, less than the images' {} x {} pixels",
                   augment.shift, side - 1, input.shape[1], input.shape[2]);
  if (augment.cutout < 0 || augment.cutout > side)
    throw BadInput("data.cutout = {}: expected 0 to {}, the images' {} x {} pixels", augment.cutout,
                   side, input.shape[1], input.shape[2]);
}

// Uncovered pixels become 0.
template <typename T>
void copy_over_zeros(const Change& change, const Shape& shape, const T* from, T* to) {
  const int64_t rows = shape[0] * shape[1];
  const int64_t height = shape[1];
  const int64_t width = shape[2];
  const int64_t kept = width - std::abs(change.right);
  const int64_t start = std::max<int64_t>(0, change.right);    // of what is kept, in `to`
  const int64_t source = std::max<int64_t>(0, -change.right);  // and in the mirrored row
  for (int64_t row = 0; row < rows; ++row, to += width) {
    const int64_t y = row % height - change.down;
    if (y < 0 || y >= height) {
      std::fill_n(to, width, T{0});
      continue;
    }
    const T* line = from + (row - change.down) * width;
    std::fill_n(to, start, T{0});
    if (change.flip)
      std::reverse_copy(line + width - source - kept, line + width - source, to + start);
    else
      std::copy_n(line + source, kept, to + start);
    std::fill_n(to + start + kept, width - start - kept, T{0});
  }
}

// The row or column of 0 .. size-1 that fills a place outside of the image, or is there.
int64_t filled_from(int64_t place, int64_t size, Fill fill) {
  if (place >= 0 && place < size) return place;
  if (fill == Fill::edge) return place < 0 ? 0 : size - 1;
  return place < 0 ? -place : 2 * (size - 1) - place;
}

template <typename T>
void copy_filled(const Change& change, const Shape& shape, const T* from, T* to) {
  const int64_t height = shape[1];
  const int64_t width = shape[2];
  std::vector<int64_t> columns;  // where each pixel of a row comes from
  for (int64_t x = 0; x < width; ++x) {
    const int64_t column = filled_from(x - change.right, width, change.fill);
    columns.push_back(change.flip ? width - 1 - column : column);
  }
  for (int64_t channel = 0; channel < shape[0]; ++channel, from += height * width)
    for (int64_t y = 0; y < height; ++y) {
      const T* const row = from + filled_from(y - change.down, height, change.fill) * width;
      for (const int64_t column : columns) *to++ = row[column];
    }
}

template <typename T>
void cut_out(const Change& change, const Shape& shape, T* image) {
  const int64_t height = shape[1];
  const int64_t width = shape[2];
  const int64_t top = change.cut_y - change.cutout / 2;
  const int64_t left = std::max<int64_t>(change.cut_x - change.cutout / 2, 0);
  const int64_t right = std::min(change.cut_x - change.cutout / 2 + change.cutout, width);
  for (int64_t channel = 0; channel < shape[0]; ++channel, image += height * width)
    for (int64_t y = std::max<int64_t>(top, 0); y < std::min(top + change.cutout, height); ++y)
      std::fill(image + y * width + left, image + y * width + right, T{0});
}

// Changes an image in place.
template <typename T>
void change_in_place(const Change& change, const Shape& shape, std::span<T> image) {
  const auto copy = std::make_unique_for_overwrite<T[]>(image.size());
  std::memcpy(copy.get(), image.data(), image.size_bytes());
  copy_changed(change, shape, copy.get(), image.data());
}

class Augmented final : public DatasetLayer {
 public:
  Augmented(std::shared_ptr<const Dataset> dataset, const Augment& augment, uint64_t seed)
      : DatasetLayer(std::move(dataset)), augment_(augment), seed_(seed) {
    for (const Field& input : fields().inputs) check_input(input, augment_);
  }

  void write(int64_t index, const Sample& to) const override {
    below().write(index, to);
    for (size_t i = 0; i < fields().inputs.size(); ++i) {
      const Field& input = fields().inputs[i];
      const Change change = draw_change(augment_, input.shape, seed_, to.epoch(), index);
      if (change.none()) continue;
      if (input.type == Type::u8)
        change_in_place(change, input.shape, to.as<uint8_t>(i));
      else
        change_in_place(change, input.shape, to.as<float>(i));
    }
  }

 private:
  const Augment augment_;
  const uint64_t seed_;
};

}  // namespace

const std::vector<std::string>& fill_names() {
  static const std::vector<std::string> names = {"zeros", "edge", "reflect"};
  return names;
}

Change draw_change(const Augment& augment, const Shape& shape, uint64_t seed, int64_t epoch,
                   int64_t sample) {
  RandomStream stream(Purpose::augment, seed, epoch, sample);
  Change change;
  if (augment.flip) change.flip = stream.below(2) == 1;
  if (augment.shift > 0) {
    const auto steps = static_cast<uint64_t>(2 * augment.shift + 1);
    change.right = static_cast<int64_t>(stream.below(steps)) - augment.shift;
    change.down = static_cast<int64_t>(stream.below(steps)) - augment.shift;
    change.fill =
        static_cast<Fill>(std::ranges::find(fill_names(), augment.fill) - fill_names().begin());
  }
  if (augment.cutout > 0) {
    change.cutout = augment.cutout;
    change.cut_x = static_cast<int64_t>(stream.below(static_cast<uint64_t>(shape[2])));
    change.cut_y = static_cast<int64_t>(stream.below(static_cast<uint64_t>(shape[1])));
  }
  return change;
}

template <typename T>
void copy_changed(const Change& change, const Shape& shape, const T* from, T* to) {
  if (change.fill == Fill::zeros)
    copy_over_zeros(change, shape, from, to);
  else
    copy_filled(change, shape, from, to);
  if (change.cutout > 0) cut_out(change, shape, to);
}

template void copy_changed(const Change&, const Shape&, const uint8_t*, uint8_t*);
template void copy_changed(const Change&, const Shape&, const float*, float*);

std::shared_ptr<const Dataset> augmented(std::shared_ptr<const Dataset> dataset,
                                         const Augment& augment, uint64_t seed) {
  if (augment.none()) return dataset;
  return std::make_shared<Augmented>(std::move(dataset), augment, seed);
}

}  // namespace lockstep::data
