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

/// Downloads by way of `to`.part, continuing where that ends; `to` appears only when whole and
/// right. Throws BadInput; what has arrived is kept for the next time.
void download(const Download& wanted);

}  // namespace lockstep::data
