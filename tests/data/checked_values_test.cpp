#include "data/checked_values.h"

#include <limits>

#include "data/some_datasets.h"
#include "expect_error.h"

namespace lockstep::data {
namespace {

// A row, a token of {a, b} and a label of {a, b, c}; sample 4 has these values.
std::shared_ptr<const Dataset> with_fourth(float x, int64_t token, int64_t label) {
  return computed({{{"x", Type::f32, {2}}, {"token", Type::i64, {}, {"a", "b"}}},
                   {label_field({"a", "b", "c"})}},
                  6, [=](int64_t index, const Sample& to) {
                    to.as<float>(0)[0] = 0;
                    to.as<float>(0)[1] = index == 4 ? x : 0;
                    to.as<int64_t>(1)[0] = index == 4 ? token : 0;
                    to.as<int64_t>(2)[0] = index == 4 ? label : 0;
                  });
}

void read_all(const std::shared_ptr<const Dataset>& dataset, ValueCheck check) {
  const auto checked = with_checked_values(dataset, check);
  const SampleRoom room(dataset->fields());
  for (int64_t i = 0; i < dataset->size(); ++i) write_sample(*checked, i, 0, room.memory());
}

TEST(CheckedValues, NameTheSampleTheFieldAndTheValue) {
  constexpr auto kAll = ValueCheck::everything;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  read_all(with_fourth(1, 1, 2), kAll);
  expect_bad_input([&] { read_all(with_fourth(nan, 1, 2), kAll); },
                   {"sample 4 cannot be read: field 'x' has nan at element 1"});
  expect_bad_input([&] { read_all(with_fourth(1, 2, 2), kAll); },
                   {"sample 4", "field 'token' has the class 2", "2 categories", "0 to 1"});
  expect_bad_input([&] { read_all(with_fourth(1, 1, 3), kAll); },
                   {"sample 4", "field 'label' has the class 3", "3 categories", "0 to 2"});
  expect_bad_input([&] { read_all(with_fourth(1, 1, -1), kAll); },
                   {"sample 4", "field 'label' has the class -1"});
}

TEST(CheckedValues, OfLabelsMayBeNegativeButNotBeyondTheClasses) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  read_all(with_fourth(nan, 7, -100), ValueCheck::labels);
  expect_bad_input([&] { read_all(with_fourth(0, 0, 3), ValueCheck::labels); },
                   {"sample 4", "field 'label' has the class 3"});
}

TEST(CheckedValues, AreTheSameDataSetToItsDigest) {
  const auto dataset = with_fourth(1, 1, 2);
  EXPECT_EQ(with_checked_values(dataset, ValueCheck::everything)->digest(), dataset->digest());
}

}  // namespace
}  // namespace lockstep::data
