#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/finding.h"
#include "launch/job.h"

namespace lockstep::doctor {

/// Which worker this process is, according to the environment.
struct RankFacts {
  std::string failure;                 ///< why the environment is refused, or ""
  std::optional<launch::Job> job;      ///< nothing: no launcher started this process
  std::vector<launch::ToldRank> told;  ///< what each launcher says
  int local_world = 1;                 ///< LOCAL_WORLD_SIZE
  std::string address;                 ///< of rank 0
  std::string address_failure;         ///< why it has none, or ""
};

std::vector<Finding> judge(const RankFacts& facts);

}  // namespace lockstep::doctor
