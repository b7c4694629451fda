#pragma once

#include "base/range.h"
#include "data/loader.h"
#include "lockstep/batch.h"

namespace lockstep::train {

/// Samples of a loaded batch as tensors over the loader's memory: those in `range`, which counts
/// from the beginning of the whole batch.
Batch to_tensors(const data::LoadedBatch& batch, const Fields& fields, Range range);

}  // namespace lockstep::train
