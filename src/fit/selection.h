#pragma once

#include <vector>

#include "fit/way.h"

namespace lockstep::fit {

/// Of all ways those to list: see find_ways.
std::vector<Way> selected(const std::vector<Way>& found, const Recipe& recipe);

}  // namespace lockstep::fit
