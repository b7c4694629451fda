#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep::run {

/// Where the workers of an elastic run that is under way can be added to or taken from.
struct ControlAddress {
  std::string host;
  uint16_t port = 0;
  std::string key;
};

/// A file in the run's folder that only its owner can read, since it holds the job's key.
void write_control(const std::filesystem::path& run, const ControlAddress& address);
void remove_control(const std::filesystem::path& run);
/// Throws BadInput where no elastic run is under way.
ControlAddress read_control(const std::filesystem::path& run);

}  // namespace lockstep::run
