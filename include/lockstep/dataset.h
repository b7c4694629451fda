#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/element.h"
#include "lockstep/error.h"
#include "lockstep/options.h"

namespace lockstep {

/// Dimensions, channels first: {1, 28, 28} for a grey image, {features} for a row, {steps,
/// features} for a series, {frames, channels, height, width} for a video, {} for a single number.
using Shape = std::vector<int64_t>;

/// One tensor that every sample of a data set has.
struct Field {
  std::string name;       ///< "image", "label"
  Type type = Type::f32;  ///< of its elements
  Shape shape = {};       ///< of one sample's
  /// For whole numbers that stand for something: what 0, 1, ... are called. Empty otherwise.
  std::vector<std::string> categories = {};

  /// Equal in all of the above.
  bool operator==(const Field&) const = default;
};

/// What a sample consists of: what a model is given, and what it should make of it.
struct Fields {
  std::vector<Field> inputs;   ///< what a model is given
  std::vector<Field> targets;  ///< what it should make of that

  /// Of both.
  size_t count() const { return inputs.size() + targets.size(); }
  /// A field by its number: inputs first, then targets.
  const Field& operator[](size_t field) const {
    return field < inputs.size() ? inputs[field] : targets[field - inputs.size()];
  }
  /// Equal in every field.
  bool operator==(const Fields&) const = default;
};

/// The C++ type of an element is this Type. For float, double, int32_t, int64_t and uint8_t.
template <typename T>
constexpr Type type_of() {
  if constexpr (std::is_same_v<T, float>) return Type::f32;
  if constexpr (std::is_same_v<T, double>) return Type::f64;
  if constexpr (std::is_same_v<T, int32_t>) return Type::i32;
  if constexpr (std::is_same_v<T, int64_t>) return Type::i64;
  if constexpr (std::is_same_v<T, uint8_t>) return Type::u8;
}

/// Where a sample is to be written: one piece of memory for each of its fields, inputs first.
class Sample {
 public:
  /// `memory` holds a piece for each of `fields`, which both outlive this. Lockstep makes samples;
  /// data sets only write them.
  Sample(const Fields& fields, std::span<const std::span<std::byte>> memory, int64_t epoch)
      : fields_(fields), memory_(memory), epoch_(epoch) {}

  /// The elements of a field. Throws BadInput when they are of another type.
  template <typename T>
  std::span<T> as(size_t field) const {
    if (fields_[field].type != type_of<T>())
      throw BadInput("field '{}' was declared with another element type", fields_[field].name);
    const std::span<std::byte> memory = memory_[field];
    return {reinterpret_cast<T*>(memory.data()), memory.size() / sizeof(T)};
  }
  /// A field's memory, whatever its element type.
  std::span<std::byte> bytes(size_t field) const { return memory_[field]; }

  /// Counts passes over the data set from 0, for what looks different each time.
  int64_t epoch() const { return epoch_; }

 private:
  const Fields& fields_;
  std::span<const std::span<std::byte>> memory_;
  int64_t epoch_;
};

/// A number of samples of the same fields. Nothing of it need be in memory.
///
///     class Squares : public lockstep::Dataset {
///      public:
///       int64_t size() const override { return 1000; }
///       const lockstep::Fields& fields() const override { return fields_; }
///       void write(int64_t index, const lockstep::Sample& to) const override {
///         to.as<float>(0)[0] = static_cast<float>(index);
///         to.as<float>(1)[0] = static_cast<float>(index * index);
///       }
///
///      private:
///       lockstep::Fields fields_{{{"x", lockstep::Type::f32, {1}}},
///                                {{"y", lockstep::Type::f32, {1}}}};
///     };
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// How many samples there are: the same at every call.
  virtual int64_t size() const = 0;
  /// What every sample consists of: the same at every call.
  virtual const Fields& fields() const = 0;

  /// Writes all of sample `index`, from 0 to size() - 1. The same bytes at every call with the same
  /// index and epoch. Called by several threads at once. What it throws ends the run, with the
  /// sample's number.
  virtual void write(int64_t index, const Sample& to) const = 0;

  /// What sample `index` counts as in a mean over a batch: 1, or a text's tokens.
  virtual int64_t items(int64_t index) const;

  /// Equal for equal data: workers compare it, and a resumed run. By default computed from the
  /// samples as epoch 0 shows them: from all of them, or where they are more than 2 GiB from 65,536
  /// of them, evenly spread.
  virtual std::string digest() const;
};

/// What a run trains on and what it is judged by.
struct Splits {
  std::shared_ptr<const Dataset> train;  ///< never null
  std::shared_ptr<const Dataset> test;   ///< null: a part of `train` is held out
};

/// What a data set is made from.
struct DatasetOptions {
  /// What stands after the colon: "DIR" for the recipe's data.name = "npy:DIR".
  std::string argument;
  /// The recipe's [data.options].
  Options options;
};

}  // namespace lockstep
