#include "run/events.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/atomic_file.h"
#include "expect_error.h"
#include "lockstep/error.h"
#include "observe/progress.h"
#include "temporary_folder.h"

namespace lockstep::run {
namespace {

TEST(EventLog, WritesOneObjectALineAndTellsListeners) {
  TemporaryFolder folder;
  EventLog log(folder / "events.jsonl");
  std::vector<std::string> heard;
  log.listen([&](const Json& event) { heard.push_back(event["event"]); });
  log.write({{"event", "start"}});
  log.write({{"event", "end"}, {"steps", 3}});
  const auto events = read_events(folder / "events.jsonl");
  ASSERT_EQ(events.size(), 2);
  EXPECT_EQ(events[1]["steps"], 3);
  EXPECT_GT(events[1]["time"].get<double>(), 1e9);
  EXPECT_EQ(heard, (std::vector<std::string>{"start", "end"}));
}

TEST(EventLog, GoesOnAfterATornLastLine) {
  TemporaryFolder folder;
  write_file_atomically(folder / "events.jsonl", "{\"event\":\"start\"}\n{\"event\":\"st");
  EventLog(folder / "events.jsonl").write({{"event", "resume"}});
  const auto events = read_events(folder / "events.jsonl");
  ASSERT_EQ(events.size(), 2);
  EXPECT_EQ(events[1]["event"], "resume");
}

TEST(EventLog, ReadingNamesTheLineThatIsNotJson) {
  TemporaryFolder folder;
  write_file_atomically(folder / "events.jsonl", "{}\nnonsense\n");
  const std::string message = message_of<BadInput>([&] { read_events(folder / "events.jsonl"); });
  EXPECT_NE(message.find("line 2"), std::string::npos) << message;
}

TEST(EventLog, RefusesADiskThatTakesNoMore) {
  EventLog log("/dev/full");
  EXPECT_THROW(log.write({{"event", "step"}}), BadInput);
}

TEST(Progress, DescribesAStepInOneLine) {
  const Json event = {{"event", "step"},      {"step", 1512}, {"steps", 5625},
                      {"epoch", 4},           {"epochs", 12}, {"loss", 0.21301},
                      {"accuracy", 0.93},     {"lr", 0.05},   {"samples_per_second", 5120.7},
                      {"seconds_left", 102.0}};
  EXPECT_EQ(describe_step(event, 120),
            "epoch 4/12  step 1,512/5,625  loss 0.2130  accuracy 93.0 %  lr 0.05  5,120 samples/s  "
            "1:42 left");
  EXPECT_EQ(describe_step(event, 45), "step 1,512/5,625  loss 0.2130  1:42 left");
  EXPECT_EQ(describe_step(event, 5), "loss 0.2130");
}

// What is shown of one event.
std::string shown(const Json& event) {
  TemporaryFolder folder;
  std::FILE* out = std::fopen((folder / "out").c_str(), "w");
  Progress(out).show(event);
  std::fclose(out);
  return read_file(folder / "out");
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
      "resuming at step 7 from c, on 2 workers now (4 before: --workers is not remembered)\n");
}

TEST(Progress, PrintsPlainLinesWhenPipedAndNotOneForEveryStep) {
  TemporaryFolder folder;
  std::FILE* out = std::fopen((folder / "out").c_str(), "w");
  Progress progress(out);
  for (int step = 1; step <= 100; ++step) progress.show({{"event", "step"}, {"step", step}});
  progress.show({{"event", "epoch"}, {"epoch", 1}, {"test_accuracy", 0.9}});
  std::fclose(out);
  const std::string text = read_file(folder / "out");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_NE(text.find("test accuracy 90.00 %"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep::run
