// IDX: two zero bytes, the element type (8: unsigned byte), the number of dimensions, each
// dimension as a big-endian 32-bit number, then the elements.
#include "data/idx.h"

#include <array>
#include <cstring>
#include <utility>

#include "data/catalog.h"
#include "data/dataset.h"
#include "data/datasets.h"
#include "data/input_file.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

struct IdxArray {
  std::vector<int64_t> dimensions;
  HeldBytes bytes;
};

uint32_t read_number(InputFile& file) {
  std::array<uint8_t, 4> bytes{};
  file.read(std::as_writable_bytes(std::span(bytes)));
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

IdxArray read_array(const fs::path& path, uint32_t rank) {
  InputFile file(path);
  const uint32_t expected = 0x0800 + rank;
  if (const uint32_t magic = read_number(file); magic != expected)
    throw BadInput(
        "{}: not an IDX file of unsigned bytes in {} dimension(s): starts with {:08x}, "
        "expected {:08x}; download the file again",
        path.string(), rank, magic, expected);
  IdxArray array;
  for (uint32_t i = 0; i < rank; ++i) array.dimensions.push_back(read_number(file));
  const auto count = checked_elements(array.dimensions);
  if (!count || *count == 0)
    throw BadInput("{}: invalid dimensions {} in its header; download the file again",
                   path.string(), to_string(array.dimensions));
  array.bytes = file.take_rest(*count);
  return array;
}

class IdxDataset final : public Dataset {
 public:
  IdxDataset(const IdxArray& images, HeldBytes labels, std::vector<std::string> class_names)
      : size_(images.dimensions[0]),
        fields_{{{"image", Type::u8, {1, images.dimensions[1], images.dimensions[2]}}},
                {label_field(std::move(class_names))}},
        images_(images.bytes),
        labels_(std::move(labels)) {}

  int64_t size() const override { return size_; }
  const Fields& fields() const override { return fields_; }
  void write(int64_t index, const Sample& to) const override {
    const std::span<std::byte> image = to.bytes(0);
    const auto at = static_cast<size_t>(index);
    std::memcpy(image.data(), images_.data() + at * image.size(), image.size());
    to.as<int64_t>(1)[0] = std::to_integer<int64_t>(labels_.data()[at]);
  }

 private:
  const int64_t size_;
  const Fields fields_;
  const HeldBytes images_;
  const HeldBytes labels_;
};

Splits load_named(const std::string& name, const DatasetOptions& options) {
  refuse_argument(options, name);
  const CatalogEntry& entry = catalog_entry(name);
  const fs::path folder = folder_with(entry, candidate_folders(entry));
  const auto read = [&](const std::string& split) {
    return read_idx(*find_file(folder, split + "-images-idx3-ubyte"),
                    *find_file(folder, split + "-labels-idx1-ubyte"), entry.class_names);
  };
  return {read("train"), read("t10k")};
}

const bool idx_added =
    datasets().add({"fashion-mnist", catalog_entry("fashion-mnist").about, "",
                    [](const DatasetOptions& o) { return load_named("fashion-mnist", o); }}) &&
    datasets().add({"mnist", catalog_entry("mnist").about, "",
                    [](const DatasetOptions& o) { return load_named("mnist", o); }});

}  // namespace

std::shared_ptr<const Dataset> read_idx(const fs::path& images, const fs::path& labels,
                                        std::vector<std::string> class_names) {
  const IdxArray pixels = read_array(images, 3);
  const IdxArray classes = read_array(labels, 1);
  if (pixels.dimensions[0] != classes.dimensions[0])
    throw BadInput(
        "{} has {} images, but {} has {} labels: expected equal numbers; download both files again",
        images.string(), pixels.dimensions[0], labels.string(), classes.dimensions[0]);
  for (size_t i = 0; i < classes.bytes.size(); ++i)
    if (const auto label = std::to_integer<size_t>(classes.bytes.data()[i]);
        label >= class_names.size())
      throw BadInput("{}: label {} of sample {}: expected 0 to {}; download the file again",
                     labels.string(), label, i, class_names.size() - 1);
  return std::make_shared<IdxDataset>(pixels, classes.bytes, std::move(class_names));
}

}  // namespace lockstep::data
