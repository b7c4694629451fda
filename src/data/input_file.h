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

/// Bytes that stay as long as a copy of this does.
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

/// A file read once from front to back, unpacked on the way when it is gzip.
class InputFile {
 public:
  /// Throws BadInput when there is no such file.
  explicit InputFile(std::filesystem::path path);

  /// Fills all of `into`. Throws BadInput when the file ends before that or is damaged.
  void read(std::span<std::byte> into);

  /// As many bytes as there are, up to the size of `into`; 0 at the end.
  size_t read_some(std::span<std::byte> into);

  /// Throws BadInput unless `bytes` more can follow: exactly that many in a plain file, no more
  /// than gzip could have packed in a packed one. Call it before asking for that much memory.
  void expect_remaining(int64_t bytes);

  /// All that is left, which must be exactly `bytes`: read into memory or, where a plain file has
  /// more than 1 GiB, mapped. A file that is mapped must not change while it is in use. Throws
  /// BadInput.
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

/// md5 of the file's contents, unpacked when it is gzip.
std::string md5_of_contents(const std::filesystem::path& path);

}  // namespace lockstep::data
