#include "data/input_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/digest.h"
#include "base/large_memory.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// The highest compression ratio of deflate.
constexpr int64_t kGzipAtMost = 1032;
// Files up to this size are read into memory, so that later changes of the file have no effect.
constexpr int64_t kReadAtMost = int64_t{1} << 30;

}  // namespace

void InputFile::Close::operator()(gzFile_s* file) const {
  gzclose(file);
}

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code failure;
  bytes_on_disk_ = static_cast<int64_t>(std::filesystem::file_size(path_, failure));
  if (failure) throw BadInput("{}: cannot be read: {}", path_.string(), failure.message());
  file_.reset(gzopen(path_.c_str(), "rbe"));
  if (!file_) throw BadInput("{}: cannot be read: {}", path_.string(), std::strerror(errno));
  gzbuffer(file_.get(), 1 << 18);
}

// Called after every read, as zlib 1.3.2 reports a truncated gzip stream only after the read that
// reached the end of the file.
void InputFile::require_sound() const {
  int code = Z_OK;
  const char* message = gzerror(file_.get(), &code);
  if (code == Z_OK || code == Z_STREAM_END) return;
  throw BadInput("{}: damaged or truncated: {}; replace the file", path_.string(),
                 code == Z_ERRNO ? std::strerror(errno) : message);
}

size_t InputFile::read_some(std::span<std::byte> into) {
  size_t done = 0;
  while (done < into.size()) {
    // gzread takes an unsigned int and returns an int.
    const size_t ask = std::min(into.size() - done, size_t{1} << 30);
    const int got = gzread(file_.get(), into.data() + done, static_cast<unsigned>(ask));
    require_sound();
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  position_ += static_cast<int64_t>(done);
  return done;
}

void InputFile::read(std::span<std::byte> into) {
  const int64_t start = position_;
  const size_t got = read_some(into);
  if (got < into.size())
    throw BadInput("{}: truncated: it has {} bytes, expected at least {}; replace the file",
                   path_.string(), position_, start + static_cast<int64_t>(into.size()));
}

void InputFile::expect_remaining(int64_t bytes) {
  const bool plain = gzdirect(file_.get()) != 0;
  if (plain && bytes != bytes_on_disk_ - position_)
    throw BadInput("{}: {}: {} bytes expected after its header, found {}; replace the file",
                   path_.string(),
                   bytes > bytes_on_disk_ - position_ ? "truncated" : "trailing bytes", bytes,
                   bytes_on_disk_ - position_);
  if (!plain && bytes / kGzipAtMost > bytes_on_disk_)
    throw BadInput(
        "{}: {} bytes expected after its header, more than {} bytes of gzip can contain; replace "
        "the file",
        path_.string(), bytes, bytes_on_disk_);
}

void InputFile::expect_end() {
  std::byte extra{};
  if (read_some(std::span(&extra, 1)) != 0)
    throw BadInput("{}: trailing bytes after the {} expected; replace the file", path_.string(),
                   position_ - 1);
}

HeldBytes InputFile::map_rest(size_t bytes) const {
  const auto fail = [&] {
    throw BadInput("{}: cannot be memory-mapped: {}", path_.string(), std::strerror(errno));
  };
  const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail();
  const auto whole = static_cast<size_t>(bytes_on_disk_);
  void* const mapped = mmap(nullptr, whole, PROT_READ, MAP_SHARED, descriptor, 0);
  const int error = errno;
  close(descriptor);
  errno = error;
  if (mapped == MAP_FAILED) fail();
  madvise(mapped, whole, MADV_RANDOM);  // samples are read in random order
  const std::shared_ptr<const std::byte> file(static_cast<const std::byte*>(mapped),
                                              [mapped, whole](auto*) { munmap(mapped, whole); });
  return {std::shared_ptr<const std::byte>(file, file.get() + position_), bytes};
}

HeldBytes InputFile::take_rest(int64_t bytes) {
  expect_remaining(bytes);
  const auto size = static_cast<size_t>(bytes);
  if (bytes > kReadAtMost && gzdirect(file_.get()) != 0) return map_rest(size);
  const std::shared_ptr<std::byte> memory = large_memory(size);
  read({memory.get(), size});
  expect_end();
  return {memory, size};
}

std::string md5_of_contents(const std::filesystem::path& path) {
  InputFile file(path);
  Digest digest(Digest::Kind::md5);
  std::vector<std::byte> piece(size_t{1} << 20);
  while (const size_t got = file.read_some(piece)) digest.add(std::span(piece).first(got));
  return digest.hex();
}

}  // namespace lockstep::data
