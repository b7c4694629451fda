#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace lockstep {

/// A file that appears whole or not at all: written under a temporary name beside `path`, and on
/// `commit` fsynced and renamed over it. Without `commit` the temporary is removed and whatever
/// was at `path` stays as it was.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws BadInput when the disk is full or cannot be written.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  void commit();

 private:
  [[noreturn]] void fail(const char* doing) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

/// One whole text file at once.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// The whole file as text. Throws BadInput when it cannot be read or has no end in sight.
std::string read_file(const std::filesystem::path& path);

}  // namespace lockstep
