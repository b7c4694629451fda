#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

namespace lockstep::run {

/// Keeps the order in which keys were written: events are read by people too.
using Json = nlohmann::ordered_json;

/// What a run records: one JSON object a line in `events.jsonl`. The terminal, the report and the
/// dashboard read only these.
///
///     EventLog log(run / "events.jsonl");
///     log.listen([](const Json& event) { ... });
///     log.write({{"event", "step"}, {"step", 12}, {"loss", 0.5}});
class EventLog {
 public:
  /// Adds to the file when it is there already (a resumed run adds to them); a torn last
  /// line is cut off first.
  explicit EventLog(std::filesystem::path path);
  /// Writes nowhere: what workers other than the first have to say is the same.
  EventLog() = default;
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  /// `listener` sees every event written from now on.
  void listen(std::function<void(const Json&)> listener);

  /// Adds the wall-clock time and writes the line at once. Throws BadInput when the disk is full.
  void write(Json event);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::vector<std::function<void(const Json&)>> listeners_;
};

/// Every whole line of an events file. Throws BadInput naming the line that is not JSON.
std::vector<Json> read_events(const std::filesystem::path& path);

}  // namespace lockstep::run
