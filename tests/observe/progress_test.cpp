#include "observe/progress.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/atomic_file.h"
#include "temporary_folder.h"

namespace lockstep::observe {
namespace {

const Json kMetrics = {{"accuracy", "percent"}, {"largest_error", "number"}};

TEST(Progress, DescribesAStepInOneLine) {
  const Json event = {{"event", "step"},      {"step", 1512}, {"steps", 5625},
                      {"epoch", 4},           {"epochs", 12}, {"loss", 0.21301},
                      {"accuracy", 0.93},     {"lr", 0.05},   {"samples_per_second", 5120.7},
                      {"seconds_left", 102.0}};
  EXPECT_EQ(describe_step(event, kMetrics, 120),
            "epoch 4/12  step 1,512/5,625  loss 0.2130  accuracy 93.0 %  lr 0.05  5,120 samples/s  "
            "1:42 left");
  EXPECT_EQ(describe_step(event, kMetrics, 45), "step 1,512/5,625  loss 0.2130  1:42 left");
  EXPECT_EQ(describe_step(event, kMetrics, 5), "loss 0.2130");
}

// What is shown of one event.
std::string shown(const Json& event) {
  TemporaryFolder folder;
  std::FILE* out = std::fopen((folder / "out").c_str(), "w");
  Progress(out, kMetrics).show(event);
  std::fclose(out);
  return read_file(folder / "out");
}

TEST(Progress, ShowsWhateverMetricsAreDeclared) {
  const Json event = {
      {"event", "epoch"}, {"epoch", 2}, {"test_accuracy", 0.5}, {"test_largest_error", 0.25}};
  EXPECT_EQ(shown(event),
            "after epoch 2: train loss 0, test loss 0, test accuracy 50.00 %, test "
            "largest error 0.25\n");
}

TEST(Progress, NamesWorkersAndHowTheyTalkWhereThereAreSeveral) {
  Json start = {{"event", "start"},   {"model", "mlp"},      {"workers", 4},   {"nodes", 2},
                {"transport", "tcp"}, {"algorithm", "ring"}, {"out", "runs/a"}};
  EXPECT_NE(shown(start).find("; 4 workers on 2 nodes over tcp, all-reduce ring; runs/a\n"),
            std::string::npos)
      << shown(start);
  start["nodes"] = 1;
  EXPECT_NE(shown(start).find("; 4 workers over tcp, all-reduce ring;"), std::string::npos);
  start["workers"] = 1;
  EXPECT_EQ(shown(start).find("worker"), std::string::npos) << shown(start);
}

TEST(Progress, SaysWhenARunGoesOnOnOtherWorkers) {
  Json resume = {
      {"event", "resume"}, {"step", 7}, {"checkpoint", "c"}, {"workers", 2}, {"workers_before", 2}};
  EXPECT_EQ(shown(resume), "resuming at step 7 from c\n");
  resume["workers_before"] = 4;
  EXPECT_EQ(
      shown(resume),
      "resuming at step 7 from c, on 2 workers (4 before: --resume does not restore --workers)\n");
}

TEST(Progress, PrintsPlainLinesWhenPipedAndNotOneForEveryStep) {
  TemporaryFolder folder;
  std::FILE* out = std::fopen((folder / "out").c_str(), "w");
  Progress progress(out, kMetrics);
  for (int step = 1; step <= 100; ++step) progress.show({{"event", "step"}, {"step", step}});
  progress.show({{"event", "epoch"}, {"epoch", 1}, {"test_accuracy", 0.9}});
  std::fclose(out);
  const std::string text = read_file(folder / "out");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_NE(text.find("test accuracy 90.00 %"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep::observe
