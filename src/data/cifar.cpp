#include "data/cifar.h"

#include <cstring>
#include <utility>

#include "data/input_file.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

constexpr int64_t kClasses = 10;
// Records read at once: enough to make the calls cheap, few enough to stay in the cache.
constexpr int64_t kRecordsAtATime = 64;

struct Destination {
  uint8_t* pixels;
  int32_t* labels;
};

void read_records(InputFile& file, int64_t records, Destination to) {
  std::vector<uint8_t> piece(static_cast<size_t>(kRecordsAtATime * kCifarRecord));
  for (int64_t done = 0; done < records;) {
    const int64_t count = std::min(kRecordsAtATime, records - done);
    file.read(writable_bytes(piece).first(static_cast<size_t>(count * kCifarRecord)));
    for (int64_t i = 0; i < count; ++i, ++done) {
      const uint8_t* record = piece.data() + i * kCifarRecord;
      if (record[0] >= kClasses)
        throw BadInput("{}: label {} of record {}: expected 0 to {}; get the file again",
                       file.path().string(), record[0], done, kClasses - 1);
      to.labels[done] = record[0];
      std::memcpy(to.pixels + done * 3 * kCifarPlane, record + 1, 3 * kCifarPlane);
    }
  }
  file.expect_end();
}

}  // namespace

Dataset read_cifar(std::span<const std::filesystem::path> files, int64_t records,
                   std::vector<std::string> class_names) {
  std::vector<InputFile> opened;
  for (const auto& path : files) opened.emplace_back(path).expect_remaining(records * kCifarRecord);
  const int64_t count = records * static_cast<int64_t>(files.size());
  std::vector<uint8_t> pixels(static_cast<size_t>(count * 3 * kCifarPlane));
  Dataset dataset;
  dataset.shape = {3, kCifarSide, kCifarSide};
  dataset.class_names = std::move(class_names);
  dataset.labels.resize(static_cast<size_t>(count));
  Destination to{pixels.data(), dataset.labels.data()};
  for (InputFile& file : opened) {
    read_records(file, records, to);
    to.pixels += records * 3 * kCifarPlane;
    to.labels += records;
  }
  dataset.values = std::move(pixels);
  return dataset;
}

std::vector<uint8_t> cifar_records(const Image& rows, std::span<const uint8_t> labels,
                                   const std::string& name) {
  const auto count = static_cast<int64_t>(labels.size());
  if (rows.width != kCifarPlane || rows.channels != 3 || rows.height != count)
    throw BadInput(
        "{}: {} x {} in {} channel(s), expected {} x {} in 3: one image a row, a label "
        "each",
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
