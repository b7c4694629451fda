#pragma once

#include <cstdint>
#include <span>

#include "data/loader.h"

namespace lockstep::data {

/// `epoch_order` into memory that is there already.
void fill_epoch_order(std::span<int64_t> into, Order order, uint64_t seed, int64_t epoch);

}  // namespace lockstep::data
