#include "train/step.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include "device/allocator.h"
#include "objective/objectives.h"
#include "some_models.h"
#include "train/short_runs.h"

namespace lockstep::train {
namespace {

// Always 0 under AddressSanitizer, which has its own allocator.
size_t memory_from_the_system() {
  const struct mallinfo2 info = mallinfo2();
  return info.arena + info.hblkhd;
}

TEST(Step, TakesNoMemoryFromTheSystemOnceItHasRun) {
  constexpr int64_t kBatch = 16, kSteps = 4, kPixels = 3 * 32 * 32;
  keep_freed_memory();
  Recipe recipe;
  recipe.train.batch = kBatch;
  const Fields fields = image_fields({3, 32, 32});
  const World world = alone();
  Step step(recipe, {.model = {parallel::ModelPart(some_model("resnet20"))},
                     .parameters = {},
                     .objective = objective::make_objective("classification", {.fields = fields}),
                     .batches = std::make_shared<DeviceBatches>(c10::kCPU, fields),
                     .schedule = optim::Schedule(recipe.schedule, 0.01, 1000, 100),
                     .shards = collective::Shards::even(2, 1),
                     .grid = std::make_shared<parallel::Grid>(world, pipeline::PipelineShape{}),
                     .world = world});
  std::vector<float> values(kBatch * kPixels, 0.5F);
  std::vector<int64_t> labels(kBatch, 3), items(kBatch, 1), samples(kBatch, 0);
  const data::LoadedBatch batch = {.whole = kBatch,
                                   .whole_items = kBatch,
                                   .samples = samples,
                                   .items = items,
                                   .fields = {std::as_writable_bytes(std::span(values)),
                                              std::as_writable_bytes(std::span(labels))}};
  observe::SpanTimes spans;
  const auto run = [&](int64_t from) {
    for (int64_t i = from; i < from + kSteps; ++i) step.run(batch, i, spans);
  };
  run(0);
  const size_t before = memory_from_the_system();
  run(kSteps);
  EXPECT_EQ(memory_from_the_system(), before);
}

}  // namespace
}  // namespace lockstep::train
