#pragma once

#include <optional>
#include <string>

#include "lockstep/ddp.h"

namespace lockstep::train {

/// Who made the others wait most, in a sentence; nothing where that was less than a hundredth of
/// `seconds`, in which the report's steps were done.
std::optional<std::string> noticeable_waiting(const StragglerReport& report, double seconds);

/// The report on the steps of both.
StragglerReport joined(StragglerReport first, const StragglerReport& second);

}  // namespace lockstep::train
