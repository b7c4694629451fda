#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "base/units.h"
#include "doctor/examine.h"

namespace lockstep::doctor {
namespace {

constexpr size_t kWidth = 80;

// Words below each other from column `indent` on. The first line is begun by `head`.
std::string wrapped(const std::string& head, size_t indent, const std::string& text) {
  std::string all;
  std::string line = fmt::format("{:<{}}", head, indent);
  bool empty = true;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!empty && line.size() + 1 + word.size() > kWidth) {
      all += line + "\n";
      line = std::string(indent, ' ');
      empty = true;
    }
    line += empty ? word : " " + word;
    empty = false;
  }
  return all + line + "\n";
}

std::string shown(const Fact& fact) {
  if (!fact.shown.empty()) return fact.shown;
  return fact.value.is_string() ? fact.value.get<std::string>() : fact.value.dump();
}

const char* name_of(Severity severity) {
  return severity == Severity::problem ? "problem" : "advice";
}

// Problems before advice.
std::vector<Finding> findings_in(const std::vector<NamedSection>& sections) {
  std::vector<Finding> all;
  for (const Severity severity : {Severity::problem, Severity::advice})
    for (const NamedSection& each : sections)
      for (const Finding& finding : each.section.findings)
        if (finding.severity == severity) all.push_back(finding);
  return all;
}

std::string text_of(const Finding& finding) {
  constexpr size_t kIndent = 11;
  return wrapped(fmt::format("  {}", name_of(finding.severity)), kIndent, finding.what) +
         wrapped("  why", kIndent, finding.why) + wrapped("  do", kIndent, finding.cure) +
         wrapped("  id", kIndent, finding.id);
}

std::string summary_of(const std::vector<Finding>& findings) {
  const auto problems = std::count_if(findings.begin(), findings.end(), [](const Finding& each) {
    return each.severity == Severity::problem;
  });
  const auto advice = static_cast<int64_t>(findings.size()) - problems;
  if (findings.empty()) return "Nothing is wrong.\n";
  return fmt::format(
      "{}, {}\n", problems == 0 ? "No problems" : plural(problems, "problem"),
      advice == 0 ? "no advice" : fmt::format("{} of advice", plural(advice, "piece")));
}

std::string key_of(const Fact& fact) {
  if (!fact.key.empty()) return fact.key;
  std::string name = fact.name;
  for (char& each : name)
    each = each == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  return name;
}

}  // namespace

std::string to_text(const std::vector<NamedSection>& sections) {
  size_t widest = 0;
  for (const NamedSection& each : sections)
    for (const Fact& fact : each.section.facts) widest = std::max(widest, fact.name.size());
  std::string text;
  for (const NamedSection& each : sections) {
    text += each.area + "\n";
    for (const Fact& fact : each.section.facts)
      text += wrapped("  " + fact.name, widest + 4, shown(fact));
    text += "\n";
  }
  const std::vector<Finding> findings = findings_in(sections);
  if (!findings.empty()) text += "findings\n";
  for (const Finding& finding : findings) text += text_of(finding) + "\n";
  return text + summary_of(findings);
}

Json to_json(const std::vector<NamedSection>& sections) {
  Json facts = Json::object();
  for (const NamedSection& each : sections)
    for (const Fact& fact : each.section.facts) facts[each.area][key_of(fact)] = fact.value;
  Json findings = Json::array();
  for (const Finding& each : findings_in(sections))
    findings.push_back({{"id", each.id},
                        {"severity", name_of(each.severity)},
                        {"what", each.what},
                        {"why", each.why},
                        {"do", each.cure}});
  return {{"facts", facts}, {"findings", findings}};
}

}  // namespace lockstep::doctor
