#pragma once

#include <string>
#include <vector>

#include "doctor/area.h"
#include "doctor/finding.h"

namespace lockstep::doctor {

struct NamedSection {
  std::string area;
  Section section;
};

/// Looks at every area, in the order in which they are shown; areas without facts are left out.
std::vector<NamedSection> examine(const Request& request);

/// 1 if there is a problem, else 0.
int exit_code_of(const std::vector<NamedSection>& sections);

/// For people, at most 80 columns wide where words are short enough.
std::string to_text(const std::vector<NamedSection>& sections);

/// {"facts": {AREA: {NAME: VALUE, ...}, ...}, "findings": [{"id", "severity", "what", "why",
/// "do"}, ...]}
Json to_json(const std::vector<NamedSection>& sections);

}  // namespace lockstep::doctor
