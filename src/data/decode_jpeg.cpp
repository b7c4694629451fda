// libjpeg reports an error by a callback that must not return, so it leaves by longjmp. That skips
// destructors: everything that owns memory lives outside `guarded`, and nothing does inside it.
#include <csetjmp>
#include <cstdio>
// jpeglib.h uses FILE and size_t without including them.
#include <jpeglib.h>

#include "data/image.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

struct JpegReader {
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  std::jmp_buf leave = {};
  char message[JMSG_LENGTH_MAX] = "";

  ~JpegReader() { jpeg_destroy_decompress(&jpeg); }
};

[[noreturn]] void on_error(j_common_ptr jpeg) {
  auto* reader = static_cast<JpegReader*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, reader->message);
  std::longjmp(reader->leave, 1);
}

// After a warning (level -1) libjpeg continues with grey pixels for damaged data: treated as an
// error here.
void on_message(j_common_ptr jpeg, int level) {
  if (level < 0) on_error(jpeg);
}

template <typename Call>
void guarded(JpegReader& reader, const std::string& name, Call call) {
  if (setjmp(reader.leave) == 0)
    call();
  else
    throw BadInput("{}: not a readable JPEG: {}; replace or remove it", name, reader.message);
}

void read_header(JpegReader& reader, std::span<const std::byte> file) {
  jpeg_create_decompress(&reader.jpeg);
  // Older libjpegs take the source as not const; none writes to it.
  auto* bytes = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(file.data()));
  jpeg_mem_src(&reader.jpeg, bytes, file.size());
  jpeg_read_header(&reader.jpeg, TRUE);
  const bool grey = reader.jpeg.jpeg_color_space == JCS_GRAYSCALE;
  reader.jpeg.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
  // The slow integer transform gives the same pixels on every processor.
  reader.jpeg.dct_method = JDCT_ISLOW;
}

void read_rows(JpegReader& reader, Image& image) {
  jpeg_start_decompress(&reader.jpeg);
  while (reader.jpeg.output_scanline < reader.jpeg.output_height) {
    JSAMPROW row = image.pixels.data() +
                   reader.jpeg.output_scanline * static_cast<size_t>(image.width * image.channels);
    jpeg_read_scanlines(&reader.jpeg, &row, 1);
  }
  jpeg_finish_decompress(&reader.jpeg);
}

}  // namespace

Image decode_jpeg(std::span<const std::byte> file, const std::string& name, Decode what) {
  JpegReader reader;
  reader.jpeg.err = jpeg_std_error(&reader.errors);
  reader.jpeg.client_data = &reader;
  reader.errors.error_exit = on_error;
  reader.errors.emit_message = on_message;
  guarded(reader, name, [&] { read_header(reader, file); });

  Image image;
  image.width = reader.jpeg.image_width;
  image.height = reader.jpeg.image_height;
  image.channels = reader.jpeg.out_color_space == JCS_GRAYSCALE ? 1 : 3;
  require_plausible(image.width, image.height, file.size(), name);
  if (what == Decode::header) return image;
  image.pixels.resize(static_cast<size_t>(image.width * image.height * image.channels));
  guarded(reader, name, [&] { read_rows(reader, image); });
  return image;
}

}  // namespace lockstep::data
