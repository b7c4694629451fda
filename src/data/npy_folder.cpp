// The data set npy:DIR: x.npy and y.npy, and x_test.npy and y_test.npy where they are. Options:
//   layout    channels_first, or channels_last for images (N, H, W, C) and videos (N, T, H, W, C)
//   targets   what y.npy holds: classes, or numbers; by default classes where it has one whole
//             number a sample
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "data/dataset.h"
#include "data/datasets.h"
#include "data/npy.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

enum class ChannelOrder { channels_first, channels_last };
enum class Targets { classes, numbers };

ChannelOrder layout_from(const Options& options) {
  const std::string name = options.text("layout", "channels_first");
  if (name == "channels_first") return ChannelOrder::channels_first;
  if (name == "channels_last") return ChannelOrder::channels_last;
  throw BadInput("data.options.layout = \"{}\": expected channels_first or channels_last", name);
}

Targets targets_from(const Options& options, const NpyArray& y) {
  const std::string name = options.text("targets", "auto");
  if (name == "classes") return Targets::classes;
  if (name == "numbers") return Targets::numbers;
  if (name != "auto")
    throw BadInput("data.options.targets = \"{}\": expected classes, numbers or auto", name);
  return y.has_whole_numbers() && elements(y.shape()) == 1 ? Targets::classes : Targets::numbers;
}

// {..., height, width, channels} -> {..., channels, height, width}, one image after another.
template <typename T>
void channels_to_front(std::span<const T> from, const Shape& shape, std::span<T> to) {
  const size_t rank = shape.size();  // `shape` is as they come out
  const auto channels = static_cast<size_t>(shape[rank - 3]);
  const auto pixels = static_cast<size_t>(shape[rank - 2] * shape[rank - 1]);
  for (size_t start = 0; start < from.size(); start += pixels * channels)
    for (size_t c = 0; c < channels; ++c)
      for (size_t p = 0; p < pixels; ++p)
        to[start + c * pixels + p] = from[start + p * channels + c];
}

struct NpyPair {
  std::shared_ptr<const NpyArray> x;
  std::shared_ptr<const NpyArray> y;
};

NpyPair read_pair(const fs::path& x_path, const fs::path& y_path) {
  NpyPair pair{std::make_shared<NpyArray>(x_path), std::make_shared<NpyArray>(y_path)};
  if (pair.x->samples() != pair.y->samples())
    throw BadInput(
        "{} has {} samples, {} has {} labels: expected as many; save both again from "
        "the same data",
        x_path.string(), pair.x->samples(), y_path.string(), pair.y->samples());
  return pair;
}

// An array of one number a sample is a row of one feature.
Shape input_shape(const NpyArray& x, ChannelOrder layout) {
  Shape shape = x.shape().empty() ? Shape{1} : x.shape();
  if (layout == ChannelOrder::channels_last && (shape.size() == 3 || shape.size() == 4))
    std::rotate(shape.end() - 3, shape.end() - 1, shape.end());
  return shape;
}

// x_test.npy's samples may lack a class of x.npy's, and have ones that x.npy lacks.
std::vector<std::string> numbered_classes(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

class NpyDataset final : public Dataset {
 public:
  NpyDataset(NpyPair pair, ChannelOrder layout, Targets targets,
             std::vector<std::string> class_names)
      : x_(std::move(pair.x)),
        y_(std::move(pair.y)),
        moves_channels_(layout == ChannelOrder::channels_last &&
                        (x_->shape().size() == 3 || x_->shape().size() == 4)),
        fields_{{{"x", x_->has_bytes() ? Type::u8 : Type::f32, input_shape(*x_, layout)}},
                {{"y", Type::f32, y_->shape()}}} {
    if (targets == Targets::numbers) return;
    labels_ = y_->labels();
    fields_.targets[0] = label_field(std::move(class_names));
  }

  int64_t size() const override { return x_->samples(); }
  const Fields& fields() const override { return fields_; }
  void write(int64_t index, const Sample& to) const override {
    if (x_->has_bytes())
      write_input<uint8_t>(index, to);
    else
      write_input<float>(index, to);
    if (labels_.empty())
      y_->write(index, to.as<float>(1));
    else
      to.as<int64_t>(1)[0] = labels_[static_cast<size_t>(index)];
  }

 private:
  template <typename T>
  void write_input(int64_t index, const Sample& to) const {
    const std::span<T> values = to.as<T>(0);
    if (!moves_channels_) return x_->write(index, values);
    std::vector<T> as_they_lie(values.size());
    x_->write(index, std::span<T>(as_they_lie));
    channels_to_front<T>(as_they_lie, fields_.inputs[0].shape, values);
  }

  const std::shared_ptr<const NpyArray> x_;
  const std::shared_ptr<const NpyArray> y_;
  const bool moves_channels_;
  Fields fields_;
  std::vector<int64_t> labels_;  ///< empty where targets are numbers
};

void require_alike(const fs::path& folder, const NpyArray& train, const NpyArray& test) {
  if (train.shape() != test.shape())
    throw BadInput("{}: samples of x.npy are {}, of x_test.npy {}: expected the same shape",
                   folder.string(), to_string(train.shape()), to_string(test.shape()));
  // Bytes are read as 0..1 and floats as they are, so a mixture would differ by 255 times.
  if (train.has_bytes() != test.has_bytes())
    throw BadInput(
        "{}: one of x.npy and x_test.npy is uint8, the other is not: expected the same "
        "dtype; save both as uint8 or both as float32",
        folder.string());
}

// Whether there is a test split.
bool has_test(const fs::path& folder) {
  const bool has_x = fs::exists(folder / "x_test.npy");
  const bool has_y = fs::exists(folder / "y_test.npy");
  if (has_x != has_y)
    throw BadInput(
        "{}: has {} but not {}; add it, or take the other away to hold out a part of "
        "x.npy",
        folder.string(), has_x ? "x_test.npy" : "y_test.npy", has_x ? "y_test.npy" : "x_test.npy");
  return has_x;
}

Splits load_npy(const DatasetOptions& options) {
  const fs::path folder = folder_argument(options, "npy");
  const ChannelOrder layout = layout_from(options.options);
  std::vector<NpyPair> pairs = {read_pair(folder / "x.npy", folder / "y.npy")};
  const Targets targets = targets_from(options.options, *pairs[0].y);
  if (has_test(folder)) {
    pairs.push_back(read_pair(folder / "x_test.npy", folder / "y_test.npy"));
    require_alike(folder, *pairs[0].x, *pairs[1].x);
  }
  int64_t largest = 0;
  if (targets == Targets::classes)
    for (const NpyPair& pair : pairs) {
      const std::vector<int64_t> labels = pair.y->labels();
      largest = std::max(largest, *std::max_element(labels.begin(), labels.end()));
    }
  const auto make = [&](const NpyPair& pair) {
    return std::make_shared<NpyDataset>(pair, layout, targets, numbered_classes(largest + 1));
  };
  return {make(pairs[0]), pairs.size() > 1 ? make(pairs[1]) : nullptr};
}

const bool npy_added = datasets().add(
    {"npy", "your own arrays: x.npy and y.npy (x_test.npy, y_test.npy); options: layout, targets",
     "DIR", load_npy});

}  // namespace
}  // namespace lockstep::data
