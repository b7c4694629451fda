#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep::run {

/// The coordinator's address of an active elastic run, for `lockstep workers`.
struct ControlAddress {
  std::string host;
  uint16_t port = 0;
  std::string key;
};

/// Stored in a file in the run's folder that only its owner can read, since it contains the job's
/// key.
void write_control(const std::filesystem::path& run, const ControlAddress& address);
void remove_control(const std::filesystem::path& run);
/// Throws BadInput if no elastic run is active.
ControlAddress read_control(const std::filesystem::path& run);

}  // namespace lockstep::run
