#include "run/model_description.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "temporary_folder.h"

namespace lockstep::run {
namespace {

ModelDescription some_model() {
  return {.name = "mlp",
          .options = {{"width", "32"}},
          .kernels = "torch",
          .threads = 2,
          .objective = "classification",
          .objective_options = {{"label_smoothing", "0.1"}},
          .data = "npy:there",
          .data_options = {{"layout", "\"channels_last\""}},
          .hold_out = {.test_fraction = 0.25, .validation_fraction = 0.125, .seed = 9},
          .fields = {{{"x", Type::u8, {3, 8, 8}}}, {{"label", Type::i64, {}, {"cat", "dog"}}}},
          .normalization = {{{0.5F, 0.25F, 0.125F}, {1, 2, 3}}}};
}

void expect_some_model(const ModelDescription& about) {
  const ModelDescription expected = some_model();
  EXPECT_EQ(about.name, expected.name);
  EXPECT_EQ(about.options, expected.options);
  EXPECT_EQ(about.kernels, expected.kernels);
  EXPECT_EQ(about.threads, expected.threads);
  EXPECT_EQ(about.objective, expected.objective);
  EXPECT_EQ(about.objective_options, expected.objective_options);
  EXPECT_EQ(about.data, expected.data);
  EXPECT_EQ(about.data_options, expected.data_options);
  EXPECT_EQ(about.hold_out.test_fraction, expected.hold_out.test_fraction);
  EXPECT_EQ(about.hold_out.validation_fraction, expected.hold_out.validation_fraction);
  EXPECT_EQ(about.hold_out.seed, expected.hold_out.seed);
  EXPECT_EQ(about.fields, expected.fields);
  EXPECT_EQ(about.normalization.at(0).mean, expected.normalization[0].mean);
  EXPECT_EQ(about.normalization.at(0).deviation, expected.normalization[0].deviation);
}

TEST(ModelDescription, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  write_safetensors(folder / "model.safetensors", {}, to_metadata(some_model()));
  expect_some_model(open_model(folder / "model.safetensors").about);
  expect_some_model(open_model(folder.path()).about);
}

TEST(ModelDescription, OfARunThatHasNotEndedIsThatOfItsNewestCheckpoint) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "checkpoints");
  write_safetensors(folder / "checkpoints/step-00000003.safetensors", {},
                    to_metadata(some_model()));
  const ModelFile file = open_model(folder.path());
  expect_some_model(file.about);
  EXPECT_EQ(file.path, folder / "checkpoints/step-00000003.safetensors");
}

TEST(ModelDescription, ThatIsMissingIsExplained) {
  const TemporaryFolder folder;
  expect_bad_input([&] { open_model(folder / "nowhere"); }, {"nowhere: no such run or file"});
  expect_bad_input([&] { open_model(folder.path()); },
                   {"has neither model.safetensors nor a checkpoint"});
  write_safetensors(folder / "theirs", {}, {{"format", "pt"}});
  expect_bad_input([&] { open_model(folder / "theirs"); },
                   {"theirs: does not say which model it is", "--weights"});
  write_safetensors(folder / "odd", {}, {{"lockstep.model", "{\"name\": 3}"}});
  expect_bad_input([&] { open_model(folder / "odd"); }, {"another version of Lockstep"});
}

}  // namespace
}  // namespace lockstep::run
