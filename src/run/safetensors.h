#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace lockstep::run {

/// One tensor of a safetensors file. It does not own `bytes`.
struct TensorView {
  std::string name;
  std::string type;  ///< "F32", "I64", ...
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

using Metadata = std::map<std::string, std::string>;

/// sha256 over every tensor's name, type, shape and bytes, in the order given.
std::string digest(std::span<const TensorView> tensors);

/// Writes the file atomically, with a digest of its contents in the metadata. Throws BadInput if
/// the disk is full; an existing file at `path` then stays.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const Metadata& metadata);

/// A file in memory. `tensors` are views of `storage`.
struct Safetensors {
  Metadata metadata;
  std::vector<TensorView> tensors;
  std::vector<std::byte> storage;

  /// nullptr when there is none of that name.
  const TensorView* find(const std::string& name) const;
};

/// Throws BadInput if the file is truncated, is not safetensors or does not match its digest (files
/// written by other programs have none).
Safetensors read_safetensors(const std::filesystem::path& path);

}  // namespace lockstep::run
