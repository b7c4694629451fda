#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::doctor {

/// A problem makes a run fail, or much slower than it need be. Advice is for what may be meant so.
enum class Severity { problem, advice };

struct Finding {
  std::string id;  ///< stays the same from version to version: "blas.reference"
  Severity severity = Severity::advice;
  std::string what;  ///< what was found, with its value
  std::string why;   ///< why it matters, as a clause
  std::string cure;  ///< what to do: a command, a variable
};

/// Keeps the order in which keys were written.
using Json = nlohmann::ordered_json;

struct Fact {
  std::string name;
  Json value;
  std::string shown = {};  ///< for people; empty: the value
  std::string key = {};    ///< in --json; empty: the name in lower case, with underscores
};

/// What was found in one area.
struct Section {
  std::vector<Fact> facts;
  std::vector<Finding> findings;
};

}  // namespace lockstep::doctor
