#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/input_file.h"

namespace lockstep::data {

/// The header of an .npy file.
struct NpyHeader {
  std::string type;  ///< kind and bytes: "f4"; always little-endian and in C order
  std::vector<int64_t> shape;
  int64_t count = 0;  ///< elements: the product of `shape`
  int64_t bytes = 0;  ///< of all of them
};

/// Reads the header; `file` is then at the first element. Throws BadInput for a malformed header,
/// big-endian values and Fortran order.
NpyHeader read_npy_header(InputFile& file);

}  // namespace lockstep::data
