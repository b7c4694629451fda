#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// " (did you mean 'batch'?)" for the candidate closest to `word`, or "" when none is close.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace lockstep
