#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/finding.h"

namespace lockstep::doctor {

/// A short training on one or two workers.
struct TrialRun {
  int workers = 1;
  std::string model_sha256;  ///< "" if it failed
  double samples_per_second = 0;
  std::string failure;  ///< what it said then
};

struct SelfTestFacts {
  std::string device;  ///< kind
  TrialRun one;
  TrialRun two;
};

std::vector<Finding> judge(const SelfTestFacts& facts);

}  // namespace lockstep::doctor
