// IDX: two zero bytes, the element type (8: unsigned byte), the number of dimensions, each
// dimension as a big-endian 32-bit number, then the elements.
#include "data/idx.h"

#include <array>
#include <utility>

#include "data/input_file.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

struct IdxArray {
  std::vector<int64_t> dimensions;
  std::vector<uint8_t> bytes;
};

uint32_t read_number(InputFile& file) {
  std::array<uint8_t, 4> bytes{};
  file.read(std::as_writable_bytes(std::span(bytes)));
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

IdxArray read_array(const std::filesystem::path& path, uint32_t rank) {
  InputFile file(path);
  const uint32_t expected = 0x0800 + rank;
  if (const uint32_t magic = read_number(file); magic != expected)
    throw BadInput(
        "{}: not an IDX file of unsigned bytes in {} dimension(s): starts with {:08x}, "
        "expected {:08x}; get the file again",
        path.string(), rank, magic, expected);
  IdxArray array;
  for (uint32_t i = 0; i < rank; ++i) array.dimensions.push_back(read_number(file));
  const auto count = checked_elements(array.dimensions);
  if (!count || *count == 0)
    throw BadInput("{}: its header says {}, which is no data set; get the file again",
                   path.string(), to_string(array.dimensions));
  file.expect_remaining(*count);
  array.bytes.resize(static_cast<size_t>(*count));
  file.read(writable_bytes(array.bytes));
  file.expect_end();
  return array;
}

}  // namespace

Dataset read_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                 std::vector<std::string> class_names) {
  IdxArray pixels = read_array(images, 3);
  const IdxArray classes = read_array(labels, 1);
  if (pixels.dimensions[0] != classes.dimensions[0])
    throw BadInput("{} has {} images, {} has {} labels: expected as many; get both files again",
                   images.string(), pixels.dimensions[0], labels.string(), classes.dimensions[0]);
  for (size_t i = 0; i < classes.bytes.size(); ++i)
    if (classes.bytes[i] >= class_names.size())
      throw BadInput("{}: label {} of sample {}: expected 0 to {}; get the file again",
                     labels.string(), classes.bytes[i], i, class_names.size() - 1);
  Dataset dataset;
  dataset.shape = {1, pixels.dimensions[1], pixels.dimensions[2]};
  dataset.class_names = std::move(class_names);
  dataset.values = std::move(pixels.bytes);
  dataset.labels.assign(classes.bytes.begin(), classes.bytes.end());
  return dataset;
}

}  // namespace lockstep::data
