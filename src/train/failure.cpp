#include "train/failure.h"

#include <algorithm>
#include <exception>
#include <vector>

#include "observe/events.h"
#include "train/run_folder.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

bool has_checkpoint(const RunFolder& folder) {
  std::error_code missing;
  const fs::directory_iterator files(folder.checkpoints(), missing);
  return std::any_of(fs::begin(files), fs::end(files), [](const fs::directory_entry& entry) {
    return entry.path().extension() == ".safetensors";
  });
}

bool is_over(const std::vector<observe::Json>& events) {
  const std::string last = events.empty() ? "" : events.back().value("event", "");
  return last == "end" || last == "stopped";
}

}  // namespace

Remains record_failure(const fs::path& out, const std::string& message) noexcept {
  try {
    const RunFolder folder = RunFolder::open(out);
    observe::EventLog log(folder.events());
    if (is_over(observe::read_events(folder.events()))) return Remains::nothing;
    log.write({{"event", "failure"}, {"message", message}});
    return has_checkpoint(folder) ? Remains::checkpoint : Remains::nothing;
  } catch (const std::exception&) {
    return Remains::nothing;  // what made the run fail is told, and matters more
  }
}

}  // namespace lockstep::train
