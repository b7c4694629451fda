#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The most virtual devices of a host.
inline constexpr int kMostVirtualDevices = 64;

/// What the environment says of devices; nothing where a variable is not set.
struct VisibleVariables {
  std::optional<std::string> lockstep;  ///< LOCKSTEP_VISIBLE_DEVICES
  std::optional<std::string> cuda;      ///< CUDA_VISIBLE_DEVICES
};
VisibleVariables visible_variables();

/// Which devices of a host `--devices` selects.
struct DeviceSelection {
  std::string kind;               ///< "virtual"
  std::optional<int> count = {};  ///< of "virtual:4": how many there are
  std::vector<int> numbers = {};  ///< of "virtual:0,2" or "cuda:1": which ones
};

/// Throws BadInput.
DeviceSelection parse_devices(const std::string& text);

/// The numbers of the devices that a host's workers may use, in the order in which workers take
/// them: of `count` devices of a kind those that LOCKSTEP_VISIBLE_DEVICES lists, and of these those
/// that are selected. CUDA itself applies CUDA_VISIBLE_DEVICES, and counts and numbers only what it
/// lists: here it is only checked that `count` devices are all of them. Throws BadInput with the
/// variable or flag, and the devices that there are.
std::vector<int> visible_devices(const std::string& kind, int count,
                                 const VisibleVariables& variables,
                                 const std::optional<DeviceSelection>& selection = {});

/// The same for one worker that uses all of them (`lockstep train --parallel dp`). Throws BadInput
/// for a kind of which there are as many as asked for, if nobody asked.
std::vector<int> all_devices_of_worker(const std::string& kind, int count,
                                       const VisibleVariables& variables,
                                       const std::optional<DeviceSelection>& selection = {});

/// The number of the device of worker `local_rank` of a host, on which there are `workers`, if that
/// is known. Throws BadInput if there are too few.
int device_of_worker(const std::string& kind, const std::vector<int>& visible, int local_rank,
                     std::optional<int> workers = {});

/// The same for a worker that computes several stages, each on a device of its own.
int device_of_stage(const std::string& kind, const std::vector<int>& visible, int stage,
                    int stages);

}  // namespace lockstep
