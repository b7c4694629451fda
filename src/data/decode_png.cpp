// libpng reports an error by a callback that must not return, so it leaves by longjmp. That skips
// destructors: everything that owns memory lives outside `guarded`, and nothing does inside it.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "data/image.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

struct PngReader {
  std::span<const std::byte> rest;
  std::jmp_buf leave = {};
  char message[200] = "";
  png_structp png = nullptr;
  png_infop info = nullptr;

  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader->message, sizeof reader->message, "%s", message);
  std::longjmp(reader->leave, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep into, size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader->rest.size()) png_error(png, "the file ends early");
  std::memcpy(into, reader->rest.data(), count);
  reader->rest = reader->rest.subspan(count);
}

template <typename Call>
void guarded(PngReader& reader, const std::string& name, Call call) {
  if (setjmp(reader.leave) == 0)
    call();
  else
    throw BadInput("{}: not a readable PNG: {}; replace or remove it", name, reader.message);
}

void read_header(PngReader& reader) {
  png_set_read_fn(reader.png, &reader, on_read);
  png_read_info(reader.png, reader.info);
  png_set_expand(reader.png);
  png_set_scale_16(reader.png);
  png_set_strip_alpha(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
}

}  // namespace

Image decode_png(std::span<const std::byte> file, const std::string& name, Decode what) {
  PngReader reader;
  reader.rest = file;
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
  if (reader.png == nullptr) throw BadInput("{}: libpng cannot start: out of memory", name);
  guarded(reader, name, [&] { reader.info = png_create_info_struct(reader.png); });
  guarded(reader, name, [&] { read_header(reader); });

  Image image;
  image.width = png_get_image_width(reader.png, reader.info);
  image.height = png_get_image_height(reader.png, reader.info);
  image.channels = png_get_channels(reader.png, reader.info);
  require_plausible(image.width, image.height, file.size(), name);
  if (what == Decode::header) return image;
  const auto row_bytes = static_cast<size_t>(image.width * image.channels);
  image.pixels.resize(row_bytes * static_cast<size_t>(image.height));
  std::vector<png_bytep> rows(static_cast<size_t>(image.height));
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = image.pixels.data() + y * row_bytes;
  guarded(reader, name, [&] {
    png_read_image(reader.png, rows.data());
    png_read_end(reader.png, nullptr);
  });
  return image;
}

}  // namespace lockstep::data
