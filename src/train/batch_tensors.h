#pragma once

#include <c10/core/Device.h>

#include "base/range.h"
#include "data/loader.h"
#include "lockstep/batch.h"

namespace lockstep::train {

/// The samples in `range` (counted from the start of the whole batch) as tensors on a device. On
/// the CPU they are views of the loader's memory.
Batch to_tensors(const data::LoadedBatch& batch, const Fields& fields, Range range,
                 c10::Device device);

}  // namespace lockstep::train
