#include "run/events.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/atomic_file.h"
#include "expect_error.h"
#include "lockstep/error.h"
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

}  // namespace
}  // namespace lockstep::run
