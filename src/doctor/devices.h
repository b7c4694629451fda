#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "device/visible.h"
#include "doctor/finding.h"

namespace lockstep::doctor {

/// A variable that may hide devices, as it is set.
struct VisibleDevices {
  std::string variable;
  std::string value;
  int listed = 0;  ///< how many devices the value lists
};

struct DeviceFacts {
  int gpus = 0;                         ///< of NVIDIA, that are plugged in
  std::vector<VisibleDevices> visible;  ///< the variables that are set
  /// Why a run would refuse the variables; empty: it would not.
  std::string refused = {};
  std::optional<int> seen;  ///< by LibTorch; nothing: it could not be asked
  bool libtorch_has_cuda = false;
  std::string libtorch_build;  ///< "LibTorch 1.13.0, USE_CUDA=OFF"
};

/// The GPUs in `root`/sys/bus/pci/devices: of NVIDIA, for displays or computing.
int gpus_plugged_in(const std::filesystem::path& root);

/// Why a run on virtual devices, or on those that CUDA finds, would refuse the variables; empty if
/// none would. Without `cuda_devices` no run can use CUDA.
std::string refusal_of(const VisibleVariables& variables, std::optional<int> cuda_devices);

std::vector<Finding> judge(const DeviceFacts& facts);

}  // namespace lockstep::doctor
