#pragma once

#include <string>
#include <vector>

#include "matpow/matpow.h"

namespace lockstep::matpow {

/// A piece of work in one phase.
struct TimedSpan {
  Phase phase = Phase::compute;
  std::string name = {};
  double begin = 0, end = 0;  ///< seconds of the host's steady clock
};

/// Now, by that clock.
double now();

/// Adds up the times of phases and of copies.
void add_up(const std::vector<TimedSpan>& spans, Timing& timing);

}  // namespace lockstep::matpow
