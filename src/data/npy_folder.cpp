// The data set npy:DIR: x.npy and y.npy and, if they exist, x_test.npy and y_test.npy, x_val.npy
// and y_val.npy. Options:
//   layout    channels_first, or channels_last for images (N, H, W, C) and videos (N, T, H, W, C)
//   targets   what y.npy contains: classes, or numbers; auto (default): classes if it has one whole
//             number per sample, else numbers
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
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

// Classes are numbered over all splits, since each may lack classes of another.
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

// `name` is the other split's: "test".
void require_alike(const fs::path& folder, const NpyArray& train, const NpyArray& other,
                   const std::string& name) {
  if (train.shape() != other.shape())
    throw BadInput("{}: samples of x.npy are {}, of x_{}.npy {}: expected the same shape",
                   folder.string(), to_string(train.shape()), name, to_string(other.shape()));
  // Bytes are scaled to 0..1 and floats are not, so that the splits would differ by a factor of
  // 255.
  if (train.has_bytes() != other.has_bytes())
    throw BadInput(
        "{}: only one of x.npy and x_{}.npy is uint8: expected the same "
        "dtype; save both as uint8 or both as float32",
        folder.string(), name);
}

// How many samples of each split have each label.
class LabelCounts {
 public:
  /// The labels of the training split, the test split and the validation split; all are empty for
  /// numbers.
  explicit LabelCounts(const std::array<std::vector<int64_t>, 3>& labels_by_split) {
    for (size_t split = 0; split < labels_by_split.size(); ++split)
      for (const int64_t label : labels_by_split[split]) {
        if (label >= classes()) by_label_.resize(static_cast<size_t>(label) + 1);
        ++by_label_[static_cast<size_t>(label)][split];
      }
  }

  int64_t classes() const { return static_cast<int64_t>(by_label_.size()); }

  /// What makes training useless, though nothing is invalid.
  std::vector<std::string> warnings(const fs::path& folder) const {
    std::vector<int64_t> trained, never, only_tested, only_validated;
    for (int64_t label = 0; label < classes(); ++label) {
      const auto& [in_train, in_test, in_validation] = by_label_[static_cast<size_t>(label)];
      (in_train > 0        ? trained
       : in_test > 0       ? only_tested
       : in_validation > 0 ? only_validated
                           : never)
          .push_back(label);
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
    add(only_validated, "is in y_val.npy but not in y.npy, so that the model never sees it");
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

  std::vector<std::array<int64_t, 3>> by_label_;  ///< training, test, validation
};

// The split "test" or "val", which must be like the training split; nothing if it does not exist.
std::optional<NpyPair> read_other(const fs::path& folder, const std::string& name,
                                  ChannelOrder layout, const NpyPair& train) {
  const fs::path x = folder / fmt::format("x_{}.npy", name);
  const fs::path y = folder / fmt::format("y_{}.npy", name);
  if (fs::exists(x) != fs::exists(y))
    throw BadInput("{}: has {} but not {}; add it, or remove the other", folder.string(),
                   (fs::exists(x) ? x : y).filename().string(),
                   (fs::exists(x) ? y : x).filename().string());
  if (!fs::exists(x)) return std::nullopt;
  NpyPair pair = read_pair(x, y, layout);
  require_alike(folder, train.x->array(), pair.x->array(), name);
  return pair;
}

Splits load_npy(const DatasetOptions& options) {
  const fs::path folder = folder_argument(options, "npy");
  const ChannelOrder layout = layout_from(options.options);
  const NpyPair train = read_pair(folder / "x.npy", folder / "y.npy", layout);
  const Targets targets = targets_from(options.options, *train.y);
  const std::array<std::optional<NpyPair>, 3> pairs = {
      train, read_other(folder, "test", layout, train), read_other(folder, "val", layout, train)};
  std::array<std::vector<int64_t>, 3> labels;
  for (size_t i = 0; i < pairs.size(); ++i)
    if (targets == Targets::classes && pairs[i]) labels[i] = pairs[i]->y->labels();
  const LabelCounts counts(labels);
  const auto make = [&](const std::optional<NpyPair>& pair) {
    return pair ? std::make_shared<NpyDataset>(*pair, targets, numbered_classes(counts.classes()))
                : nullptr;
  };
  return {make(pairs[0]), make(pairs[1]), make(pairs[2]), counts.warnings(folder)};
}

const bool npy_added = datasets().add(
    {"npy", "your own arrays: x.npy, y.npy (x_test.npy, x_val.npy, ...); options: layout, targets",
     "DIR", load_npy});

}  // namespace
}  // namespace lockstep::data
