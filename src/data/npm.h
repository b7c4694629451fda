#pragma once

#include <string>

namespace lockstep::data {

/// Where a package's archive is and what it must be.
struct NpmArchive {
  std::string url;
  std::string sha512;  ///< in hexadecimal
};

/// Asks the user's own npm, so the registry is whichever npm is set up for. Throws BadInput when
/// npm is missing or does not know the package.
NpmArchive find_npm_archive(const std::string& package);

}  // namespace lockstep::data
