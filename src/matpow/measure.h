#pragma once

#include <c10/core/Device.h>

#include <vector>

#include "matpow/matpow.h"

namespace lockstep::matpow {

/// `measure` on devices that exist already: one, or two.
Result measure_on(const std::vector<c10::Device>& devices, const Options& options);

}  // namespace lockstep::matpow
