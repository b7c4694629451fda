#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

struct gzFile_s;

namespace lockstep::data {

/// Reference-counted bytes: valid as long as a copy of this exists.
class HeldBytes {
 public:
  HeldBytes() = default;
  HeldBytes(std::shared_ptr<const std::byte> bytes, size_t size)
      : bytes_(std::move(bytes)), size_(size) {}

  const std::byte* data() const { return bytes_.get(); }
  size_t size() const { return size_; }
  std::span<const std::byte> span() const { return {data(), size_}; }

 private:
  std::shared_ptr<const std::byte> bytes_;
  size_t size_ = 0;
};

/// A file that is read once from start to end, and unpacked if it is gzip.
class InputFile {
 public:
  /// Throws BadInput if there is no such file.
  explicit InputFile(std::filesystem::path path);

  /// Fills all of `into`. Throws BadInput if the file is too short or damaged.
  void read(std::span<std::byte> into);

  /// As many bytes as there are, up to the size of `into`; 0 at the end.
  size_t read_some(std::span<std::byte> into);

  /// Throws BadInput unless `bytes` more can follow: exactly that many in a plain file, at most
  /// what its size allows in a gzip file. Call it before allocating that much memory.
  void expect_remaining(int64_t bytes);

  /// The rest of the file, which must be exactly `bytes`: read into memory or, if it is a plain
  /// file and the rest has more than 1 GiB, memory-mapped. A mapped file must not change while it
  /// is in use. Throws BadInput.
  HeldBytes take_rest(int64_t bytes);

  const std::filesystem::path& path() const { return path_; }

 private:
  struct Close {
    void operator()(gzFile_s* file) const;
  };

  void require_sound() const;
  void expect_end();
  HeldBytes map_rest(size_t bytes) const;

  std::filesystem::path path_;
  int64_t bytes_on_disk_ = 0;
  int64_t position_ = 0;
  std::unique_ptr<gzFile_s, Close> file_;
};

template <typename T>
std::span<std::byte> writable_bytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

/// md5 of the file's contents, unpacked if it is gzip.
std::string md5_of_contents(const std::filesystem::path& path);

}  // namespace lockstep::data
