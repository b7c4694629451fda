#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace lockstep::data {

struct Download {
  std::string url;  ///< http or https
  std::filesystem::path to;
  std::string sha512;                                           ///< of the whole file
  std::function<void(int64_t done, int64_t total)> progress{};  ///< total 0: not known
};

/// Downloads to `to`.part, continuing an interrupted download, and renames it to `to` when it is
/// complete and has the right digest. Throws BadInput; what was downloaded is kept for the next
/// attempt.
void download(const Download& wanted);

}  // namespace lockstep::data
