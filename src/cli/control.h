#pragma once

#include <filesystem>

#include "elastic/member.h"

namespace lockstep::cli {

/// Where the workers of a run that is under way can be added to or taken from: a file in its folder
/// that only its owner can read, since it holds the job's key.
void write_control(const std::filesystem::path& run, const elastic::MemberOptions& job);
void remove_control(const std::filesystem::path& run);
/// Throws BadInput where no elastic run is under way.
elastic::MemberOptions read_control(const std::filesystem::path& run);

}  // namespace lockstep::cli
