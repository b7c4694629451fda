#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "data/loader.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

/// A data set whose samples a function computes, so that it takes no memory whatever its size.
class ComputedDataset final : public Dataset {
 public:
  using Write = std::function<void(int64_t index, const Sample& to)>;
  using Items = std::function<int64_t(int64_t index)>;

  ComputedDataset(Fields fields, int64_t size, Write write, Items items)
      : fields_(std::move(fields)),
        size_(size),
        write_(std::move(write)),
        items_(std::move(items)) {}

  int64_t size() const override { return size_; }
  const Fields& fields() const override { return fields_; }
  void write(int64_t index, const Sample& to) const override {
    ++writes_;
    write_(index, to);
  }
  int64_t items(int64_t index) const override {
    return items_ ? items_(index) : Dataset::items(index);
  }

  /// Samples written so far.
  int64_t writes() const { return writes_; }

 private:
  const Fields fields_;
  const int64_t size_;
  const Write write_;
  const Items items_;
  mutable std::atomic<int64_t> writes_ = 0;
};

inline std::shared_ptr<const ComputedDataset> computed(Fields fields, int64_t size,
                                                       ComputedDataset::Write write,
                                                       ComputedDataset::Items items = {}) {
  return std::make_shared<ComputedDataset>(std::move(fields), size, std::move(write),
                                           std::move(items));
}

/// So many samples of zeros.
inline std::shared_ptr<const ComputedDataset> zeros(const Fields& fields, int64_t size) {
  return computed(fields, size, [count = fields.count()](int64_t, const Sample& to) {
    for (size_t i = 0; i < count; ++i) std::memset(to.bytes(i).data(), 0, to.bytes(i).size());
  });
}

template <typename T>
void copy_to(const Sample& to, size_t field, const std::vector<T>& values, int64_t index) {
  const std::span<T> room = to.as<T>(field);
  std::memcpy(room.data(), values.data() + static_cast<size_t>(index) * room.size(),
              room.size_bytes());
}

/// One input "x" with these values, sample after sample, and one label for each sample.
template <typename T>
std::shared_ptr<const ComputedDataset> labelled(Shape shape, std::vector<T> values,
                                                std::vector<int64_t> labels,
                                                std::vector<std::string> class_names = {"a", "b"}) {
  const auto size = static_cast<int64_t>(labels.size());
  return computed(
      {{{"x", type_of<T>(), std::move(shape)}}, {label_field(std::move(class_names))}}, size,
      [values = std::move(values), labels = std::move(labels)](int64_t index, const Sample& to) {
        copy_to(to, 0, values, index);
        copy_to(to, 1, labels, index);
      });
}

/// What a field has in all samples, one sample after another.
template <typename T>
std::vector<T> read_field(const Dataset& dataset, size_t field, int64_t epoch = 0) {
  EXPECT_EQ(dataset.fields()[field].type, type_of<T>());
  std::vector<T> all;
  const SampleRoom room(dataset.fields());
  for (int64_t sample = 0; sample < dataset.size(); ++sample) {
    write_sample(dataset, sample, epoch, room.memory());
    const auto* first = reinterpret_cast<const T*>(room[field].data());
    all.insert(all.end(), first, first + room[field].size() / sizeof(T));
  }
  return all;
}

/// The first target of all samples.
inline std::vector<int64_t> read_labels(const Dataset& dataset) {
  return read_field<int64_t>(dataset, dataset.fields().inputs.size());
}

inline const std::vector<std::string>& class_names_of(const Dataset& dataset) {
  return dataset.fields().targets.at(0).categories;
}

/// A field of a batch as elements of type T.
template <typename T>
std::vector<T> batch_field(const LoadedBatch& batch, size_t field) {
  const std::span<const std::byte> bytes = batch.fields.at(field);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace lockstep::data
