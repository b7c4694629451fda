#include "data/relabelled.h"

#include "data/some_datasets.h"
#include "expect_error.h"

namespace lockstep::data {
namespace {

Fields with_classes(std::vector<std::string> names) {
  return {{{"x", Type::f32, {1}}}, {label_field(std::move(names))}};
}

std::shared_ptr<const Dataset> labelled(std::vector<std::string> names) {
  const auto classes = static_cast<int64_t>(names.size());
  return computed(with_classes(std::move(names)), 6, [=](int64_t index, const Sample& to) {
    to.as<float>(0)[0] = static_cast<float>(index);
    to.as<int64_t>(1)[0] = index % classes;
  });
}

TEST(Relabelled, NumbersClassesAsTheModelDoes) {
  const auto dataset = relabelled(labelled({"dog", "cat"}), with_classes({"bird", "cat", "dog"}));
  EXPECT_EQ(read_labels(*dataset), (std::vector<int64_t>{2, 1, 2, 1, 2, 1}));
  EXPECT_EQ(dataset->fields(), with_classes({"bird", "cat", "dog"}));
}

TEST(Relabelled, NamesAClassThatTheModelDoesNotKnow) {
  expect_bad_input([] { relabelled(labelled({"cat", "fish"}), with_classes({"cat", "dog"})); },
                   {"a class 'fish'", "trained on: cat, dog"});
}

TEST(Relabelled, NamesInputsAndTargetsThatDiffer) {
  Fields other = with_classes({"cat", "dog"});
  other.inputs[0].shape = {2};
  expect_bad_input([&] { relabelled(labelled({"cat", "dog"}), other); },
                   {"input 'x' of the data is 1 of f32, but the model was trained on 2 of f32"});
  other = with_classes({"cat"});
  other.targets[0] = {"y", Type::f32, {1}};
  expect_bad_input([&] { relabelled(labelled({"cat"}), other); }, {"target 'label'"});
  other.targets.clear();
  expect_bad_input([&] { relabelled(labelled({"cat"}), other); }, {"1 targets", "with 0"});
}

}  // namespace
}  // namespace lockstep::data
