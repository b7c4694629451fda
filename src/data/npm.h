#pragma once

#include <string>

namespace lockstep::data {

/// The address and digest of a package's archive.
struct NpmArchive {
  std::string url;
  std::string sha512;  ///< in hexadecimal
};

/// Asks the user's npm, which uses its configured registry. Throws BadInput if npm is missing or
/// does not find the package.
NpmArchive find_npm_archive(const std::string& package);

}  // namespace lockstep::data
