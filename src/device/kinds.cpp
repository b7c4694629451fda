#include "device/kinds.h"

namespace lockstep {

Table<DeviceKindRow>& device_kinds() {
  static Table<DeviceKindRow> table("kind of device");
  return table;
}

namespace {

using Count = DeviceKindRow::Count;

[[maybe_unused]] const bool kinds_added =
    device_kinds().add({.name = "cpu",
                        .about = "the cores and the memory of the worker's process",
                        .count = Count::one_per_worker}) &&
    device_kinds().add({.name = "virtual",
                        .about =
                            "devices without hardware, which compute on the CPU and have their "
                            "own memory",
                        .count = Count::as_asked}) &&
    device_kinds().add({.name = "cuda",
                        .about = "NVIDIA GPUs, with a LibTorch that was built with CUDA",
                        .count = Count::by_libtorch});

}  // namespace
}  // namespace lockstep
