#include "data/image.h"

#include <algorithm>
#include <array>

#include "base/atomic_file.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

constexpr std::array<uint8_t, 8> kPngStart = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr std::array<uint8_t, 3> kJpegStart = {0xff, 0xd8, 0xff};

bool starts_with(std::span<const std::byte> file, std::span<const uint8_t> start) {
  const auto same = [](std::byte a, uint8_t b) { return std::to_integer<uint8_t>(a) == b; };
  return file.size() >= start.size() &&
         std::equal(start.begin(), start.end(), file.begin(),
                    [&](uint8_t b, std::byte a) { return same(a, b); });
}

}  // namespace

Image decode_image(std::span<const std::byte> file, const std::string& name, Decode what) {
  if (starts_with(file, kPngStart)) return decode_png(file, name, what);
  if (starts_with(file, kJpegStart)) return decode_jpeg(file, name, what);
  throw BadInput("{}: neither a PNG nor a JPEG ({} bytes); convert or remove it", name,
                 file.size());
}

Image read_image(const std::filesystem::path& path, Decode what) {
  const std::string file = read_file(path);
  return decode_image(std::as_bytes(std::span(file)), path.string(), what);
}

void require_plausible(int64_t width, int64_t height, size_t bytes, const std::string& name) {
  // The densest is a PNG of one bit a pixel: 8 pixels a byte, and deflate packs 1,032 to one.
  constexpr int64_t kPixelsAByte = int64_t{8} * 1032;
  if (width < 1 || height < 1 || width * height / kPixelsAByte > static_cast<int64_t>(bytes))
    throw BadInput(
        "{}: its header says {} x {}, more than its {} bytes can contain; replace or remove it",
        name, width, height, bytes);
}

}  // namespace lockstep::data
