#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "doctor/finding.h"

namespace lockstep::doctor {

inline std::vector<std::string> ids_of(const std::vector<Finding>& findings) {
  std::vector<std::string> ids;
  for (const Finding& each : findings) ids.push_back(each.id);
  return ids;
}

/// Expects one finding, complete, that says all `parts` in what was found or what to do.
inline void expect_one(const std::vector<Finding>& findings, const std::string& id,
                       Severity severity, const std::vector<std::string>& parts) {
  ASSERT_EQ(ids_of(findings), std::vector<std::string>{id});
  const Finding& found = findings.front();
  EXPECT_EQ(found.severity, severity) << found.what;
  EXPECT_FALSE(found.why.empty());
  EXPECT_FALSE(found.cure.empty());
  const std::string text = found.what + "; " + found.cure;
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' in: " << text;
}

}  // namespace lockstep::doctor
