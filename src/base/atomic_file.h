#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
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

/// What to do about a file that cannot be written because of this errno, after "; ": free some
/// space, mount the file system read-write, ...; "" where nothing is known.
std::string cure_of_write_error(int error);

/// Writes a whole text file.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// The whole file as text. Throws BadInput if it cannot be read or is longer than 1 GiB.
std::string read_file(const std::filesystem::path& path);

}  // namespace lockstep
