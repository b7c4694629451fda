#include "data/relabelled.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/element.h"
#include "data/dataset.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

std::string described(const Field& field) {
  if (!field.categories.empty()) return fmt::format("one of {} classes", field.categories.size());
  if (field.shape.empty()) return fmt::format("one {}", name_of(field.type));
  return fmt::format("{} of {}", to_string(field.shape), name_of(field.type));
}

void require_alike(const char* what, const std::vector<Field>& have,
                   const std::vector<Field>& expected) {
  if (have.size() != expected.size())
    throw BadInput("the data have {} {}s, but the model was trained with {}", have.size(), what,
                   expected.size());
  for (size_t i = 0; i < have.size(); ++i)
    if (have[i].type != expected[i].type || have[i].shape != expected[i].shape ||
        have[i].categories.empty() != expected[i].categories.empty())
      throw BadInput("{} '{}' of the data is {}, but the model was trained on {}", what,
                     have[i].name, described(have[i]), described(expected[i]));
}

// For each class of `have`, its number in `expected`.
std::vector<int64_t> numbers_of(const Field& have, const Field& expected) {
  std::vector<int64_t> numbers;
  for (const std::string& name : have.categories) {
    const auto found = std::ranges::find(expected.categories, name);
    if (found == expected.categories.end())
      throw BadInput("the data have a class '{}', but the model was trained on: {}", name,
                     fmt::join(expected.categories, ", "));
    numbers.push_back(found - expected.categories.begin());
  }
  return numbers;
}

class Relabelled final : public DatasetLayer {
 public:
  Relabelled(std::shared_ptr<const Dataset> dataset, const Fields& fields)
      : DatasetLayer(std::move(dataset)), fields_(fields) {
    for (size_t i = 0; i < fields_.targets.size(); ++i)
      numbers_.push_back(numbers_of(below().fields().targets[i], fields_.targets[i]));
  }

  const Fields& fields() const override { return fields_; }
  void write(int64_t index, const Sample& to) const override {
    below().write(index, to);
    for (size_t i = 0; i < numbers_.size(); ++i) {
      if (numbers_[i].empty()) continue;
      for (int64_t& label : to.as<int64_t>(fields_.inputs.size() + i))
        if (label >= 0) label = numbers_[i].at(static_cast<size_t>(label));
    }
  }

 private:
  const Fields fields_;
  std::vector<std::vector<int64_t>> numbers_;  ///< by target, by class
};

}  // namespace

std::shared_ptr<const Dataset> relabelled(std::shared_ptr<const Dataset> dataset,
                                          const Fields& fields) {
  require_alike("input", dataset->fields().inputs, fields.inputs);
  require_alike("target", dataset->fields().targets, fields.targets);
  return std::make_shared<Relabelled>(std::move(dataset), fields);
}

}  // namespace lockstep::data
