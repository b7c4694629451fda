#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep::optim {

/// From `from` at progress 0 to `to` at progress 1 along half a cosine.
inline double half_cosine(double from, double to, double progress) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * std::clamp(progress, 0.0, 1.0))) / 2;
}

}  // namespace lockstep::optim
