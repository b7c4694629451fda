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

/// One tensor of a sample: every sample of a data set has the same fields.
struct Field {
  std::string name;       ///< "image", "label"
  Type type = Type::f32;  ///< element type
  Shape shape = {};       ///< of one sample
  /// If the values are class indices: the names of classes 0, 1, ... Empty otherwise.
  std::vector<std::string> categories = {};

  /// Compares all members.
  bool operator==(const Field&) const = default;
};

/// The fields of a sample.
struct Fields {
  std::vector<Field> inputs;   ///< the arguments of the model
  std::vector<Field> targets;  ///< the expected outputs

  /// Number of inputs and targets together.
  size_t count() const { return inputs.size() + targets.size(); }
  /// A field by its number: inputs first, then targets.
  const Field& operator[](size_t field) const {
    return field < inputs.size() ? inputs[field] : targets[field - inputs.size()];
  }
  /// Compares all fields.
  bool operator==(const Fields&) const = default;
};

/// The Type of a C++ type: float, double, int32_t, int64_t or uint8_t.
template <typename T>
constexpr Type type_of() {
  if constexpr (std::is_same_v<T, float>) return Type::f32;
  if constexpr (std::is_same_v<T, double>) return Type::f64;
  if constexpr (std::is_same_v<T, int32_t>) return Type::i32;
  if constexpr (std::is_same_v<T, int64_t>) return Type::i64;
  if constexpr (std::is_same_v<T, uint8_t>) return Type::u8;
}

/// The memory that a data set writes a sample to: one buffer per field, inputs first.
class Sample {
 public:
  /// `memory` has one buffer for each of `fields`; both must outlive this object. Lockstep creates
  /// samples, data sets write to them.
  Sample(const Fields& fields, std::span<const std::span<std::byte>> memory, int64_t epoch)
      : fields_(fields), memory_(memory), epoch_(epoch) {}

  /// The elements of a field. Throws BadInput if the field was declared with another type.
  template <typename T>
  std::span<T> as(size_t field) const {
    if (fields_[field].type != type_of<T>())
      throw BadInput("field '{}' was declared with another element type", fields_[field].name);
    const std::span<std::byte> memory = memory_[field];
    return {reinterpret_cast<T*>(memory.data()), memory.size() / sizeof(T)};
  }
  /// A field's memory, whatever its element type.
  std::span<std::byte> bytes(size_t field) const { return memory_[field]; }

  /// The epoch, from 0: for data that are different in every epoch, such as augmented images.
  int64_t epoch() const { return epoch_; }

 private:
  const Fields& fields_;
  std::span<const std::span<std::byte>> memory_;
  int64_t epoch_;
};

/// A fixed number of samples with the same fields. The data need not be in memory.
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

  /// Number of samples. Must be the same at every call.
  virtual int64_t size() const = 0;
  /// The fields of every sample. Must be the same at every call.
  virtual const Fields& fields() const = 0;

  /// Writes sample `index` (0 to size() - 1): every element of every field. The result must depend
  /// only on the index and the epoch. May be called from several threads at once. An exception ends
  /// the run with an error that names the sample.
  virtual void write(int64_t index, const Sample& to) const = 0;

  /// Weight of sample `index` in means over a batch. Default: 1. For texts: the number of tokens.
  virtual int64_t items(int64_t index) const;

  /// A digest of the data. Workers must agree on it, and a resumed run must find the same one.
  /// Default: of all samples in epoch 0 or, if these are larger than 2 GiB, of 65,536 evenly spread
  /// ones.
  virtual std::string digest() const;
};

/// The splits of a data set.
struct Splits {
  std::shared_ptr<const Dataset> train;  ///< never nullptr
  std::shared_ptr<const Dataset> test;   ///< nullptr: a part of `train` is held out
  /// Evaluated after every epoch, instead of `test`. nullptr: a part of `train` is held out if the
  /// recipe has data.validation_fraction.
  std::shared_ptr<const Dataset> validation = nullptr;
  /// Of what is valid but probably not meant, such as a class without samples. Printed when
  /// training starts.
  std::vector<std::string> warnings = {};
};

/// Passed to the function that makes a data set.
struct DatasetOptions {
  /// The part after the colon: "DIR" if the recipe has data.name = "npy:DIR".
  std::string argument;
  /// The recipe's [data.options].
  Options options;
};

}  // namespace lockstep
