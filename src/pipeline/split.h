#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/range.h"

namespace lockstep::pipeline {

/// The layers of each part, where `text` lists the layers with which parts begin but the first:
/// "3,7,9" for four parts. A layer is a number, from 0, or one of `names`. Throws BadInput for
/// another number of parts, a layer that there is not, and a part without layers.
std::vector<Range> parse_split(const std::string& text, const std::vector<std::string>& names,
                               int parts);

/// The layers of each part, so that the part with the highest cost has the lowest possible; of
/// several such divisions the one whose first parts are shortest. `costs` are of layers. Throws
/// BadInput if there are more parts than layers.
std::vector<Range> balanced_split(const std::vector<double>& costs, int parts);

/// Throws BadInput if there are more parts than layers.
void require_enough_layers(size_t layers, int parts);

/// As parse_split takes it: "3,7,9".
std::string to_text(const std::vector<Range>& split);

}  // namespace lockstep::pipeline
