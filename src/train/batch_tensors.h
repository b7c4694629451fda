#pragma once

#include "base/range.h"
#include "data/loader.h"
#include "lockstep/batch.h"

namespace lockstep::train {

/// The samples in `range` (counted from the start of the whole batch) as tensors, which are views
/// of the loader's memory.
Batch to_tensors(const data::LoadedBatch& batch, const Fields& fields, Range range);

}  // namespace lockstep::train
