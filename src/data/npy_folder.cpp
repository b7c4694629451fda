// The data set npy:DIR: x.npy and y.npy, and x_test.npy and y_test.npy if they exist. Options:
//   layout    channels_first, or channels_last for images (N, H, W, C) and videos (N, T, H, W, C)
//   targets   what y.npy contains: classes, or numbers; auto (default): classes if it has one whole
//             number per sample, else numbers
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "data/dataset.h"
#include "data/datasets.h"
#include "data/npy.h"
#include "data/npy_inputs.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

enum class Targets { classes, numbers };

Targets targets_from(const Options& options, const NpyArray& y) {
  const std::string name = options.text("targets", "auto");
  if (name == "classes") return Targets::classes;
  if (name == "numbers") return Targets::numbers;
  if (name != "auto")
    throw BadInput("data.options.targets = \"{}\": expected classes, numbers or auto", name);
  return y.has_whole_numbers() && elements(y.shape()) == 1 ? Targets::classes : Targets::numbers;
}

struct NpyPair {
  std::shared_ptr<const NpyInputs> x;
  std::shared_ptr<const NpyArray> y;
};

NpyPair read_pair(const fs::path& x_path, const fs::path& y_path, ChannelOrder layout) {
  NpyPair pair{std::make_shared<NpyInputs>(x_path, layout), std::make_shared<NpyArray>(y_path)};
  if (pair.x->samples() != pair.y->samples())
    throw BadInput(
        "{} has {} samples, but {} has {} targets: expected equal numbers; save both again from "
        "the same data",
        x_path.string(), pair.x->samples(), y_path.string(), pair.y->samples());
  return pair;
}

// Classes are numbered over both splits, since each may lack classes of the other.
std::vector<std::string> numbered_classes(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

class NpyDataset final : public Dataset {
 public:
  NpyDataset(NpyPair pair, Targets targets, std::vector<std::string> class_names)
      : x_(std::move(pair.x)),
        y_(std::move(pair.y)),
        fields_{{{"x", x_->type(), x_->shape()}}, {{"y", Type::f32, y_->shape()}}} {
    if (targets == Targets::numbers) return;
    labels_ = y_->labels();
    fields_.targets[0] = label_field(std::move(class_names));
  }

  int64_t size() const override { return x_->samples(); }
  const Fields& fields() const override { return fields_; }
  void write(int64_t index, const Sample& to) const override {
    x_->write(index, to);
    if (labels_.empty())
      y_->write(index, to.as<float>(1));
    else
      to.as<int64_t>(1)[0] = labels_[static_cast<size_t>(index)];
  }

 private:
  const std::shared_ptr<const NpyInputs> x_;
  const std::shared_ptr<const NpyArray> y_;
  Fields fields_;
  std::vector<int64_t> labels_;  ///< empty where targets are numbers
};

void require_alike(const fs::path& folder, const NpyArray& train, const NpyArray& test) {
  if (train.shape() != test.shape())
    throw BadInput("{}: samples of x.npy are {}, of x_test.npy {}: expected the same shape",
                   folder.string(), to_string(train.shape()), to_string(test.shape()));
  // Bytes are scaled to 0..1 and floats are not, so that the splits would differ by a factor of
  // 255.
  if (train.has_bytes() != test.has_bytes())
    throw BadInput(
        "{}: only one of x.npy and x_test.npy is uint8: expected the same "
        "dtype; save both as uint8 or both as float32",
        folder.string());
}

// How many training and test samples have each label.
class LabelCounts {
 public:
  /// The labels of the training split and, if there is one, the test split; nothing for numbers.
  explicit LabelCounts(const std::vector<std::vector<int64_t>>& labels_by_split) {
    for (size_t split = 0; split < labels_by_split.size(); ++split)
      for (const int64_t label : labels_by_split[split]) {
        if (label >= classes()) by_label_.resize(static_cast<size_t>(label) + 1);
        ++by_label_[static_cast<size_t>(label)][split];
      }
  }

  int64_t classes() const { return static_cast<int64_t>(by_label_.size()); }

  /// What makes training useless, though nothing is invalid.
  std::vector<std::string> warnings(const fs::path& folder) const {
    std::vector<int64_t> trained, never, only_tested;
    for (int64_t label = 0; label < classes(); ++label) {
      const auto& [in_train, in_test] = by_label_[static_cast<size_t>(label)];
      (in_train > 0 ? trained : in_test > 0 ? only_tested : never).push_back(label);
    }
    std::vector<std::string> found;
    const auto add = [&](const std::vector<int64_t>& labels, const char* what) {
      if (!labels.empty())
        found.push_back(fmt::format("{}: {}", folder.string(), said_of(labels, what)));
    };
    if (trained.size() == 1)
      add(trained, "is the only one in y.npy: there is nothing to tell apart");
    add(never, "has no sample: labels should be numbered from 0 without gaps");
    add(only_tested, "is in y_test.npy but not in y.npy, so that the model never sees it");
    return found;
  }

 private:
  // "class 3 is ...", or "classes 3, 5, 8, ... (40 in all): each is ...".
  static std::string said_of(const std::vector<int64_t>& labels, const char* what) {
    constexpr size_t kMost = 5;
    if (labels.size() == 1) return fmt::format("class {} {}", labels[0], what);
    const std::vector<int64_t> first(
        labels.begin(), labels.begin() + static_cast<int64_t>(std::min(kMost, labels.size())));
    return fmt::format("classes {}{}: each {}", fmt::join(first, ", "),
                       labels.size() > kMost ? fmt::format(", ... ({} in all)", labels.size()) : "",
                       what);
  }

  std::vector<std::array<int64_t, 2>> by_label_;  ///< training, test
};

// Whether there is a test split.
bool has_test(const fs::path& folder) {
  const bool has_x = fs::exists(folder / "x_test.npy");
  const bool has_y = fs::exists(folder / "y_test.npy");
  if (has_x != has_y)
    throw BadInput("{}: has {} but not {}; add it, or remove the other to hold out a part of x.npy",
                   folder.string(), has_x ? "x_test.npy" : "y_test.npy",
                   has_x ? "y_test.npy" : "x_test.npy");
  return has_x;
}

Splits load_npy(const DatasetOptions& options) {
  const fs::path folder = folder_argument(options, "npy");
  const ChannelOrder layout = layout_from(options.options);
  std::vector<NpyPair> pairs = {read_pair(folder / "x.npy", folder / "y.npy", layout)};
  const Targets targets = targets_from(options.options, *pairs[0].y);
  if (has_test(folder)) {
    pairs.push_back(read_pair(folder / "x_test.npy", folder / "y_test.npy", layout));
    require_alike(folder, pairs[0].x->array(), pairs[1].x->array());
  }
  std::vector<std::vector<int64_t>> labels;
  if (targets == Targets::classes)
    for (const NpyPair& pair : pairs) labels.push_back(pair.y->labels());
  const LabelCounts counts(labels);
  const auto make = [&](const NpyPair& pair) {
    return std::make_shared<NpyDataset>(pair, targets, numbered_classes(counts.classes()));
  };
  return {make(pairs[0]), pairs.size() > 1 ? make(pairs[1]) : nullptr, counts.warnings(folder)};
}

const bool npy_added = datasets().add(
    {"npy", "your own arrays: x.npy and y.npy (x_test.npy, y_test.npy); options: layout, targets",
     "DIR", load_npy});

}  // namespace
}  // namespace lockstep::data
