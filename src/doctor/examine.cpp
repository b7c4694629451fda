#include "doctor/examine.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "base/deadline.h"
#include "job/trainer_library.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

// The shortest time over which stolen processor time is measured.
constexpr double kSampleSeconds = 0.2;

Library load_library() {
  try {
    const train::TrainerLibrary* const trainer = job::load_trainer().get();
    Library library{.facts = trainer->libtorch_facts()};
    Dl_info place = {};
    if (dladdr(trainer, &place) != 0)
      library.handle = dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return library;
  } catch (const Error& error) {
    return {.failure = error.what()};
  }
}

std::vector<const AreaRow*> areas_in_order() {
  std::vector<const AreaRow*> rows;
  for (const auto& row : areas()) rows.push_back(row.get());
  std::sort(rows.begin(), rows.end(),
            [](const AreaRow* a, const AreaRow* b) { return a->place < b->place; });
  return rows;
}

}  // namespace

Table<AreaRow>& areas() {
  static Table<AreaRow> table("area");
  return table;
}

std::vector<NamedSection> examine(const Request& request) {
  Visit visit{.request = request};
  visit.before = cpu_times(visit.root);
  const Deadline sampled = Deadline::in(kSampleSeconds);
  visit.library = load_library();
  std::this_thread::sleep_for(std::chrono::duration<double>(sampled.left()));
  std::vector<NamedSection> sections;
  for (const AreaRow* row : areas_in_order()) {
    NamedSection named{row->name, row->examine(visit)};
    if (!named.section.facts.empty()) sections.push_back(std::move(named));
  }
  return sections;
}

int exit_code_of(const std::vector<NamedSection>& sections) {
  for (const NamedSection& each : sections)
    for (const Finding& finding : each.section.findings)
      if (finding.severity == Severity::problem) return 1;
  return 0;
}

}  // namespace lockstep::doctor
