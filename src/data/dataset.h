#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/dataset.h"
#include "lockstep/error.h"

namespace lockstep::data {

int64_t elements(const Shape& shape);

/// The product of dimensions from a file's header, to be checked against the file's size before
/// memory is allocated; nothing if one is negative or the product overflows.
std::optional<int64_t> checked_elements(std::span<const int64_t> dimensions);

/// "1 x 28 x 28".
std::string to_string(const Shape& shape);

/// The bytes of one sample.
int64_t bytes_of(const Field& field);
int64_t bytes_of(const Fields& fields);

/// The field of a class label.
Field label_field(std::vector<std::string> class_names);

/// Memory for one sample.
class SampleRoom {
 public:
  explicit SampleRoom(const Fields& fields);

  std::span<const std::byte> bytes() const { return {room_.get(), size_}; }
  std::span<const std::span<std::byte>> memory() const { return memory_; }
  std::span<std::byte> operator[](size_t field) const { return memory_[field]; }

 private:
  size_t size_;
  std::unique_ptr<std::byte[]> room_;
  std::vector<std::span<std::byte>> memory_;  ///< by field
};

/// A sample cannot be read. The message has the sample's number in the data set or file.
class UnreadableSample : public BadInput {
 public:
  using BadInput::BadInput;
};

/// Calls dataset.write; any exception becomes UnreadableSample with the sample's number. Layers
/// that number samples otherwise than the data set below them read it by this function, so that
/// messages have the number in the data set, not that in a split.
void write_sample(const Dataset& dataset, int64_t index, int64_t epoch,
                  std::span<const std::span<std::byte>> memory);
void write_sample(const Dataset& dataset, int64_t index, const Sample& to);

/// dataset.items(index). Throws UnreadableSample if it is negative.
int64_t items_of(const Dataset& dataset, int64_t index);

/// Indices of evenly spread samples: all samples, or at most `most` if the data set has more than 2
/// GiB.
std::vector<int64_t> spread_samples(const Dataset& dataset, int64_t most);

/// Throws BadInput for an invalid data set: no sample, no input, a dimension below 1, a duplicate
/// field name.
void check_dataset(const Dataset& dataset, const std::string& split);

/// A base class for data sets that wrap another one and change its samples, but neither their
/// number nor their digest.
class DatasetLayer : public Dataset {
 public:
  explicit DatasetLayer(std::shared_ptr<const Dataset> below) : below_(std::move(below)) {}

  int64_t size() const override { return below_->size(); }
  const Fields& fields() const override { return below_->fields(); }
  int64_t items(int64_t index) const override { return below_->items(index); }
  std::string digest() const override { return below_->digest(); }

 protected:
  const Dataset& below() const { return *below_; }

 private:
  const std::shared_ptr<const Dataset> below_;
};

/// A copy of the data set in memory (as of epoch 0) if it has at most 1 GiB; else the data set
/// itself.
std::shared_ptr<const Dataset> in_memory_if_small(std::shared_ptr<const Dataset> dataset);

}  // namespace lockstep::data
