#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace lockstep {

/// A file that is written atomically: under a temporary name beside `path`, and on `commit` flushed
/// to disk and renamed to `path`. Without `commit` the temporary file is removed, and an existing
/// file at `path` stays as it was.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws BadInput if the disk is full or not writable.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  void commit();

 private:
  [[noreturn]] void fail(const char* doing) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

/// Writes a whole text file.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// The whole file as text. Throws BadInput if it cannot be read or is longer than 1 GiB.
std::string read_file(const std::filesystem::path& path);

}  // namespace lockstep
