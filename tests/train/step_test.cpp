#include "train/step.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "device/allocator.h"
#include "launch/group.h"

namespace lockstep::train {
namespace {

int64_t page_faults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

#ifndef __SANITIZE_ADDRESS__  // it has an allocator of its own
TEST(Step, TakesNoMemoryFromTheSystemOnceItHasRun) {
  constexpr int64_t kBatch = 16, kSteps = 10, kPixels = 3 * 32 * 32;
  keep_freed_memory();
  Recipe recipe;
  recipe.train.batch = kBatch;
  const auto group = launch::join_group({}, {.connect = {.transport = "shm"}});
  Step step(recipe, model::make_model({.name = "resnet20", .input = {3, 32, 32}}), {3, 32, 32},
            optim::Schedule(recipe.schedule, 0.01, 1000, 100),
            {collective::Shards::even(2, 1), *group});
  std::vector<float> values(kBatch * kPixels, 0.5F);
  std::vector<int64_t> labels(kBatch, 3);
  const data::Batch batch = {.whole = kBatch, .values = values, .labels = labels};
  observe::SpanTimes spans;
  const auto run = [&](int64_t from) {
    for (int64_t i = from; i < from + kSteps; ++i) step.run(batch, i, spans);
  };
  run(0);
  const int64_t before = page_faults();
  run(kSteps);
  EXPECT_LE(page_faults() - before, kSteps) << "pages of new memory in " << kSteps << " steps";
}
#endif

}  // namespace
}  // namespace lockstep::train
