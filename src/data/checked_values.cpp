#include "data/checked_values.h"

#include <cmath>
#include <limits>
#include <utility>

#include "data/dataset.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// Calls `visit` with a field's elements, in their own type.
template <typename Visit>
void visit_elements(const Sample& sample, size_t field, Type type, const Visit& visit) {
  switch (type) {
    case Type::f32:
      return visit(sample.as<float>(field));
    case Type::f64:
      return visit(sample.as<double>(field));
    case Type::i32:
      return visit(sample.as<int32_t>(field));
    case Type::i64:
      return visit(sample.as<int64_t>(field));
    case Type::u8:
      return visit(sample.as<uint8_t>(field));
    default:
      return;
  }
}

template <typename T>
void require_finite(std::span<const T> elements, const Field& field) {
  for (size_t i = 0; i < elements.size(); ++i)
    if (!std::isfinite(elements[i]))
      throw BadInput("field '{}' has {} at element {}: expected finite numbers", field.name,
                     elements[i], i);
}

template <typename T>
void require_classes(std::span<const T> elements, const Field& field, bool negative_passes) {
  const auto count = static_cast<double>(field.categories.size());
  for (size_t i = 0; i < elements.size(); ++i) {
    const auto value = static_cast<double>(elements[i]);
    if (value < count && (value >= 0 || negative_passes)) continue;
    throw BadInput(
        "field '{}' has the class {} at element {}, but declares {} categories: expected 0 to {}; "
        "correct the value, or declare more categories",
        field.name, elements[i], i, field.categories.size(), field.categories.size() - 1);
  }
}

class CheckedValues final : public DatasetLayer {
 public:
  CheckedValues(std::shared_ptr<const Dataset> dataset, ValueCheck check)
      : DatasetLayer(std::move(dataset)), check_(check) {}

  void write(int64_t index, const Sample& to) const override {
    below().write(index, to);
    const size_t inputs = fields().inputs.size();
    for (size_t i = check_ == ValueCheck::everything ? 0 : inputs; i < fields().count(); ++i)
      visit_elements(to, i, fields()[i].type,
                     [&]<typename T>(std::span<T> elements) { check<T>(elements, i, i < inputs); });
  }

 private:
  template <typename T>
  void check(std::span<const T> elements, size_t field, bool is_input) const {
    const Field& about = fields()[field];
    if (!about.categories.empty())
      require_classes(elements, about, check_ == ValueCheck::labels);
    else if constexpr (std::is_floating_point_v<T>)
      if (is_input) require_finite(elements, about);
  }

  const ValueCheck check_;
};

bool has_labels(const Dataset& dataset) {
  for (const Field& target : dataset.fields().targets)
    if (!target.categories.empty()) return true;
  return false;
}

}  // namespace

std::shared_ptr<const Dataset> with_checked_values(std::shared_ptr<const Dataset> dataset,
                                                   ValueCheck check) {
  if (!dataset || (check == ValueCheck::labels && !has_labels(*dataset))) return dataset;
  return std::make_shared<CheckedValues>(std::move(dataset), check);
}

Splits with_checked_values(Splits splits, ValueCheck check) {
  for (std::shared_ptr<const Dataset>* split : {&splits.train, &splits.test, &splits.validation})
    *split = with_checked_values(std::move(*split), check);
  return splits;
}

}  // namespace lockstep::data
