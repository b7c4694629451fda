#include "data/cifar.h"

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

class CifarDataset final : public Dataset {
 public:
  CifarDataset(std::vector<HeldBytes> files, int64_t records, std::vector<std::string> class_names)
      : files_(std::move(files)),
        records_(records),
        fields_{{{"image", Type::u8, {3, kCifarSide, kCifarSide}}},
                {label_field(std::move(class_names))}} {}

  int64_t size() const override { return records_ * static_cast<int64_t>(files_.size()); }
  const Fields& fields() const override { return fields_; }
  void write(int64_t index, const Sample& to) const override {
    const HeldBytes& file = files_[static_cast<size_t>(index / records_)];
    const std::byte* const record = file.data() + index % records_ * kCifarRecord;
    std::memcpy(to.bytes(0).data(), record + 1, 3 * kCifarPlane);
    to.as<int64_t>(1)[0] = std::to_integer<int64_t>(record[0]);
  }

 private:
  const std::vector<HeldBytes> files_;
  const int64_t records_;  ///< of each file
  const Fields fields_;
};

void check_labels(const HeldBytes& file, int64_t records, size_t classes, const fs::path& path) {
  for (int64_t i = 0; i < records; ++i)
    if (const auto label = std::to_integer<size_t>(file.data()[i * kCifarRecord]); label >= classes)
      throw BadInput("{}: label {} of record {}: expected 0 to {}; download the file again",
                     path.string(), label, i, classes - 1);
}

Splits load_cifar10(const DatasetOptions& options) {
  refuse_argument(options, "cifar10");
  const CatalogEntry& entry = catalog_entry("cifar10");
  const fs::path folder = folder_with(entry, candidate_folders(entry));
  std::vector<fs::path> files;
  for (const CatalogFile& file : entry.files) files.push_back(*find_file(folder, file.name));
  const std::span<const fs::path> all(files);
  return {read_cifar(all.first(files.size() - 1), kCifarBatch, entry.class_names),
          read_cifar(all.last(1), kCifarBatch, entry.class_names)};
}

const bool cifar_added =
    datasets().add({"cifar10", catalog_entry("cifar10").about, "", load_cifar10});

}  // namespace

std::shared_ptr<const Dataset> read_cifar(std::span<const fs::path> files, int64_t records,
                                          std::vector<std::string> class_names) {
  std::vector<HeldBytes> held;
  for (const fs::path& path : files) {
    held.push_back(InputFile(path).take_rest(records * kCifarRecord));
    check_labels(held.back(), records, class_names.size(), path);
  }
  return std::make_shared<CifarDataset>(std::move(held), records, std::move(class_names));
}

std::vector<uint8_t> cifar_records(const Image& rows, std::span<const uint8_t> labels,
                                   const std::string& name) {
  const auto count = static_cast<int64_t>(labels.size());
  if (rows.width != kCifarPlane || rows.channels != 3 || rows.height != count)
    throw BadInput(
        "{}: {} x {} with {} channel(s), expected {} x {} with 3: one image per row, and a label "
        "for each",
        name, rows.width, rows.height, rows.channels, kCifarPlane, count);
  std::vector<uint8_t> records(static_cast<size_t>(count * kCifarRecord));
  for (int64_t row = 0; row < count; ++row) {
    const uint8_t* from = rows.pixels.data() + row * 3 * kCifarPlane;
    uint8_t* to = records.data() + row * kCifarRecord;
    *to++ = labels[static_cast<size_t>(row)];
    for (int64_t pixel = 0; pixel < kCifarPlane; ++pixel)
      for (int64_t channel = 0; channel < 3; ++channel)
        to[channel * kCifarPlane + pixel] = from[pixel * 3 + channel];
  }
  return records;
}

}  // namespace lockstep::data
