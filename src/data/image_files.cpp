#include "data/image_files.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

// Hidden files, and the folder that macOS adds to archives.
bool is_litter(const std::string& name) {
  return name.starts_with('.') || name == "__MACOSX";
}

// Sorted, so that the order does not depend on the file system.
template <typename Wanted>
std::vector<fs::path> sorted_entries(const fs::path& folder, Wanted wanted) {
  std::error_code failure;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, failure))
    if (!is_litter(entry.path().filename().string()) && wanted(entry))
      found.push_back(entry.path());
  if (failure) throw BadInput("{}: cannot be read: {}", folder.string(), failure.message());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

bool is_image(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& letter : extension)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  return sorted_entries(folder, [](const auto& entry) { return entry.is_directory(); });
}

std::vector<fs::path> images_in(const fs::path& folder) {
  return sorted_entries(
      folder, [](const auto& entry) { return entry.is_regular_file() && is_image(entry.path()); });
}

void write_planes(const Image& image, const Shape& shape, std::span<uint8_t> to) {
  const auto pixels = static_cast<size_t>(shape[1] * shape[2]);
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t c = 0; c < static_cast<size_t>(shape[0]); ++c) {
    const size_t from = channels == 1 ? 0 : c;
    for (size_t p = 0; p < pixels; ++p) to[c * pixels + p] = image.pixels[p * channels + from];
  }
}

}  // namespace lockstep::data
