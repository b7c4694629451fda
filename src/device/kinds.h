#pragma once

#include <string>

#include "base/table.h"

namespace lockstep {

/// A kind of devices: a value of the recipe's key device.kind.
struct DeviceKindRow {
  std::string name;
  std::string about;
  /// How many of them a host has.
  enum class Count {
    one_per_worker,  ///< not numbered: every worker has its own
    as_asked,        ///< as many as `--devices` says, or as workers need
    by_libtorch,     ///< those that LibTorch finds
  } count;
};

Table<DeviceKindRow>& device_kinds();

}  // namespace lockstep
