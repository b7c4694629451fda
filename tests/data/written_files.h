#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

/// An IDX file's bytes.
inline std::string idx(const std::vector<uint32_t>& dimensions, const std::string& elements) {
  std::string file = {'\0', '\0', '\x08', static_cast<char>(dimensions.size())};
  for (const uint32_t dimension : dimensions)
    for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(dimension >> shift);
  return file + elements;
}

inline std::string gzip(const std::string& contents) {
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, contents.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
  stream.avail_in = static_cast<uInt>(contents.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// An .npy file's bytes: `dictionary` as numpy writes it, in format `version`.
inline std::string npy_raw(const std::string& dictionary, const std::string& elements,
                           int version = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  const int bytes = version == 1 ? 2 : 4;
  for (int i = 0; i < bytes; ++i) file += static_cast<char>(dictionary.size() >> (8 * i));
  return file + dictionary + elements;
}

inline std::string npy(const std::string& type, const std::vector<int64_t>& shape,
                       const std::string& elements, int version = 1) {
  std::string tuple;
  for (const int64_t dimension : shape) tuple += std::to_string(dimension) + ", ";
  return npy_raw(
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + tuple + "), }   \n",
      elements, version);
}

/// Values as they lie in memory.
template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace lockstep::data
