#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace lockstep::data {

/// Pixels row by row, with interleaved channels (1: grey; 3: red, green, blue).
struct Image {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;
};

/// What to read of a file: everything, or only its size and channels, without `pixels`.
enum class Decode { all, header };

/// Decodes a PNG or a JPEG, distinguished by its first bytes. Transparency is dropped and 16 bits
/// are rounded to 8. Throws BadInput with `name` and the decoder's message, also for a partly
/// damaged file.
Image decode_image(std::span<const std::byte> file, const std::string& name,
                   Decode what = Decode::all);
Image decode_png(std::span<const std::byte> file, const std::string& name,
                 Decode what = Decode::all);
Image decode_jpeg(std::span<const std::byte> file, const std::string& name,
                  Decode what = Decode::all);

Image read_image(const std::filesystem::path& path, Decode what = Decode::all);

/// Throws BadInput if a file of `bytes` cannot contain that many pixels. Decoders call it after
/// reading a header and before allocating memory.
void require_plausible(int64_t width, int64_t height, size_t bytes, const std::string& name);

/// The middle square, scaled to `side` x `side` with a triangle filter as wide as the scale (so
/// that shrinking averages pixels instead of skipping them). Integer arithmetic, so that the result
/// is the same on every machine.
Image scale_to_square(const Image& image, int64_t side);

}  // namespace lockstep::data
