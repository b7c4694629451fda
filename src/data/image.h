#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace lockstep::data {

/// Pixels row by row, the channels (1: grey, 3: red, green, blue) of a pixel side by side.
struct Image {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;
};

/// What is read of a file: all of it, or its size and channels alone, leaving `pixels` empty.
enum class Decode { all, header };

/// Decodes a PNG or a JPEG, told apart by how it starts. Transparency is dropped and 16 bits are
/// rounded to 8. Throws BadInput with `name` and the decoder's message; a file that is only partly
/// good is refused too.
Image decode_image(std::span<const std::byte> file, const std::string& name,
                   Decode what = Decode::all);
Image decode_png(std::span<const std::byte> file, const std::string& name,
                 Decode what = Decode::all);
Image decode_jpeg(std::span<const std::byte> file, const std::string& name,
                  Decode what = Decode::all);

Image read_image(const std::filesystem::path& path, Decode what = Decode::all);

/// Throws BadInput when a file of `bytes` cannot hold that many pixels: called by the decoders
/// between reading a header and asking for memory.
void require_plausible(int64_t width, int64_t height, size_t bytes, const std::string& name);

/// The middle square, scaled to `side` x `side` with a triangle filter as wide as the scale (so
/// that shrinking averages instead of skipping). Integer arithmetic: the same bits everywhere.
Image scale_to_square(const Image& image, int64_t side);

}  // namespace lockstep::data
