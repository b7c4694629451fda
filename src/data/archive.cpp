#include "data/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <memory>

#include "data/input_file.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

// Above the largest file of the known data sets, which has 47 MB.
constexpr size_t kLargest = size_t{64} << 20;
constexpr size_t kPiece = size_t{1} << 18;

struct FreeArchive {
  void operator()(archive* reader) const { archive_read_free(reader); }
};

// Collects what `read_some(into)` gives until it gives 0.
template <typename ReadSome>
std::vector<std::byte> read_all(const std::string& where, ReadSome read_some) {
  std::vector<std::byte> contents;
  while (true) {
    const size_t used = contents.size();
    if (used > kLargest)
      throw BadInput("{}: larger than {} bytes: not a file of this data set", where, kLargest);
    contents.resize(std::max(used * 2, used + kPiece));
    const size_t got = read_some(std::span(contents).subspan(used));
    contents.resize(used + got);
    if (got == 0) return contents;
  }
}

[[noreturn]] void fail(archive* reader, const fs::path& path) {
  const char* message = archive_error_string(reader);
  throw BadInput("{}: not a readable .tgz: {}; download the file again", path.string(),
                 message == nullptr ? "damaged" : message);
}

std::vector<std::byte> read_entry(archive* reader, const fs::path& path, const std::string& where) {
  return read_all(where, [&](std::span<std::byte> into) {
    const la_ssize_t got = archive_read_data(reader, into.data(), into.size());
    if (got < 0) fail(reader, path);
    return static_cast<size_t>(got);
  });
}

}  // namespace

void visit_archive(const fs::path& path, const Visit& visit) {
  if (!fs::is_regular_file(path)) throw BadInput("{}: is not a file or folder", path.string());
  const std::unique_ptr<archive, FreeArchive> reader(archive_read_new());
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_format_tar(reader.get());
  if (archive_read_open_filename(reader.get(), path.c_str(), kPiece) != ARCHIVE_OK)
    fail(reader.get(), path);
  archive_entry* entry = nullptr;
  int result = ARCHIVE_OK;
  while ((result = archive_read_next_header(reader.get(), &entry)) == ARCHIVE_OK) {
    const char* name = archive_entry_pathname(entry);
    if (name == nullptr || archive_entry_filetype(entry) != AE_IFREG) continue;
    const std::string where = fmt::format("{} ({})", path.string(), name);
    visit({fs::path(name).filename().string(), where,
           [&] { return read_entry(reader.get(), path, where); }});
  }
  if (result != ARCHIVE_EOF) fail(reader.get(), path);
}

void visit_folder(const fs::path& folder, const Visit& visit) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files)
    visit({path.filename().string(), path.string(), [&path] {
             InputFile file(path);
             return read_all(path.string(),
                             [&](std::span<std::byte> into) { return file.read_some(into); });
           }});
}

}  // namespace lockstep::data
