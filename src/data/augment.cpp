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
        "data.flip, data.shift: samples of shape {} are not images (channels x height x width); "
        "leave both out",
        to_string(input.shape));
  const int64_t side = std::min(input.shape[1], input.shape[2]);
  if (augment.shift < 0 || augment.shift >= side)
    throw BadInput("data.shift = {}: expected 0 to {}, less than the images' {} x {} pixels",
                   augment.shift, side - 1, input.shape[1], input.shape[2]);
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
    const Change change = draw_change(augment_, seed_, to.epoch(), index);
    if (change.none()) return;
    for (size_t i = 0; i < fields().inputs.size(); ++i) {
      const Field& input = fields().inputs[i];
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

Change draw_change(const Augment& augment, uint64_t seed, int64_t epoch, int64_t sample) {
  RandomStream stream(Purpose::augment, seed, epoch, sample);
  Change change;
  if (augment.flip) change.flip = stream.below(2) == 1;
  if (augment.shift > 0) {
    const auto steps = static_cast<uint64_t>(2 * augment.shift + 1);
    change.right = static_cast<int64_t>(stream.below(steps)) - augment.shift;
    change.down = static_cast<int64_t>(stream.below(steps)) - augment.shift;
  }
  return change;
}

template <typename T>
void copy_changed(const Change& change, const Shape& shape, const T* from, T* to) {
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

template void copy_changed(const Change&, const Shape&, const uint8_t*, uint8_t*);
template void copy_changed(const Change&, const Shape&, const float*, float*);

std::shared_ptr<const Dataset> augmented(std::shared_ptr<const Dataset> dataset,
                                         const Augment& augment, uint64_t seed) {
  if (augment.none()) return dataset;
  return std::make_shared<Augmented>(std::move(dataset), augment, seed);
}

}  // namespace lockstep::data
