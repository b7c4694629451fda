#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <array>
#include <optional>
#include <vector>

#include "base/range.h"
#include "data/loader.h"
#include "lockstep/batch.h"
#include "parallel/named_tensors.h"

namespace lockstep::train {

using parallel::moved;

/// The samples in `range` (counted from the start of the whole batch) as tensors on a device. On
/// the CPU they are views of the loader's memory.
Batch to_tensors(const data::LoadedBatch& batch, const Fields& fields, Range range,
                 c10::Device device);

/// On another device; on its own they are the same tensors.
Batch moved(Batch batch, c10::Device device);

/// A worker's batches in its device's memory. On the CPU that is the loader's memory. For other
/// devices the loader's thread copies each batch to one of two places, while a step uses the batch
/// in the other.
class DeviceBatches {
 public:
  DeviceBatches(c10::Device device, Fields fields);

  /// For the loader; this must outlive it.
  data::Deliver deliver();

  /// The samples in `range` (counted from the start of the whole batch). Valid as long as the
  /// batch.
  Batch part(const data::LoadedBatch& batch, Range range) const;

 private:
  void copy(const data::LoadedBatch& batch);
  void make_room(int64_t samples);

  const c10::Device device_;
  const Fields fields_;
  std::optional<c10::Stream> copies_;  ///< not on the CPU
  std::array<std::vector<at::Tensor>, 2>
      places_;  ///< by field; only the loader's thread makes them
};

}  // namespace lockstep::train
