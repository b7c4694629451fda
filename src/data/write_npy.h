#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

namespace lockstep::data {

/// Writes a NumPy file of this type ("<f4") and shape ("(40, 6)").
inline void write_npy(const std::filesystem::path& path, const std::string& type,
                      const std::string& shape, std::span<const std::byte> data) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(63 - (10 + header.size()) % 64, ' ').append("\n");
  std::ofstream file(path, std::ios::binary);
  file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size() & 255)
       << static_cast<char>(header.size() >> 8) << header;
  file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
}

}  // namespace lockstep::data
