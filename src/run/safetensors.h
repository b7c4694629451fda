#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace lockstep::run {

/// One tensor as a safetensors file names it. `bytes` is memory that somebody else owns.
struct TensorView {
  std::string name;
  std::string type;  ///< "F32", "I64", ...
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

using Metadata = std::map<std::string, std::string>;

/// sha256 over every tensor's name, type, shape and bytes, in the order given.
std::string digest(std::span<const TensorView> tensors);

/// Writes the file whole or not at all, with a digest of all of it in its metadata. Throws BadInput
/// when the disk is full; what was at `path` stays.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const Metadata& metadata);

/// A file in memory. `tensors` view into `storage`.
struct Safetensors {
  Metadata metadata;
  std::vector<TensorView> tensors;
  std::vector<std::byte> storage;

  /// nullptr when there is none of that name.
  const TensorView* find(const std::string& name) const;
};

/// Throws BadInput when the file is torn, is not safetensors or does not match its digest (files
/// written by others carry none).
Safetensors read_safetensors(const std::filesystem::path& path);

}  // namespace lockstep::run
