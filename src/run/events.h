#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::run {

/// Keeps the order in which keys were written: events are read by people too.
using Json = nlohmann::ordered_json;

/// A run's folder, or its log, was removed while the run was writing it.
class RunRemoved : public Error {
 public:
  explicit RunRemoved(const std::filesystem::path& folder);
};

/// A run's log: one JSON object per line in `events.jsonl`. The terminal shows only these events.
///
///     EventLog log(run / "events.jsonl");
///     log.listen([](const Json& event) { ... });
///     log.write({{"event", "step"}, {"step", 12}, {"loss", 0.5}});
class EventLog {
 public:
  /// Appends if the file exists, as for a resumed run; an incomplete last line is removed first.
  explicit EventLog(std::filesystem::path path);
  /// Writes nothing: for workers other than rank 0, whose events would be the same.
  EventLog() = default;
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  /// Calls `listener` with every event from now on.
  void listen(std::function<void(const Json&)> listener);

  /// Adds the wall-clock time and writes the line at once. Throws BadInput if the disk is full,
  /// RunRemoved if the file was removed.
  void write(Json event);

 private:
  void check_present() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::vector<std::function<void(const Json&)>> listeners_;
};

/// All complete lines of an events file. Throws BadInput naming the first line that is not JSON.
std::vector<Json> read_events(const std::filesystem::path& path);

}  // namespace lockstep::run
