#include "data/dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <set>
#include <utility>

#include "base/digest.h"
#include "base/element.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr int64_t kDigestSamples = 65'536;

std::string describe(const Fields& fields) {
  std::string text;
  for (size_t i = 0; i < fields.count(); ++i)
    text += fmt::format("{} {} {} [{}] [{}]\n", i < fields.inputs.size() ? "input" : "target",
                        fields[i].name, name_of(fields[i].type), fmt::join(fields[i].shape, " "),
                        fmt::join(fields[i].categories, "\n"));
  return text;
}

}  // namespace

int64_t Dataset::items(int64_t) const {
  return 1;
}

std::string Dataset::digest() const {
  Digest digest(Digest::Kind::sha256);
  digest.add(fmt::format("{} samples\n{}", size(), describe(fields())));
  const data::SampleRoom room(fields());
  for (const int64_t sample : data::spread_samples(*this, kDigestSamples)) {
    data::write_sample(*this, sample, 0, room.memory());
    digest.add(room.bytes());
    const int64_t count = items(sample);
    digest.add(std::as_bytes(std::span(&count, 1)));
  }
  return digest.hex();
}

namespace data {
namespace {

// The order of an epoch is kept in memory, eight bytes a sample.
constexpr int64_t kMostSamples = 100'000'000'000;
constexpr int64_t kReadAll = int64_t{2} << 30;
constexpr int64_t kKeepInMemory = int64_t{1} << 30;

// Fields are aligned for numbers of any type.
constexpr size_t kAlignment = 16;
size_t aligned(int64_t bytes) {
  return (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
}

bool is_larger(const Dataset& dataset, int64_t bytes) {
  return dataset.size() > bytes / std::max<int64_t>(bytes_of(dataset.fields()), 1);
}

class InMemory final : public DatasetLayer {
 public:
  explicit InMemory(std::shared_ptr<const Dataset> dataset)
      : DatasetLayer(std::move(dataset)),
        fields_(below().fields()),
        items_(static_cast<size_t>(below().size())) {
    const auto size = static_cast<size_t>(below().size());
    for (size_t i = 0; i < fields_.count(); ++i)
      columns_.emplace_back(size * static_cast<size_t>(bytes_of(fields_[i])));
    std::vector<std::span<std::byte>> memory(fields_.count());
    for (size_t sample = 0; sample < size; ++sample) {
      for (size_t i = 0; i < memory.size(); ++i) memory[i] = place(i, sample);
      write_sample(below(), static_cast<int64_t>(sample), 0, memory);
      items_[sample] = below().items(static_cast<int64_t>(sample));
    }
  }

  int64_t size() const override { return static_cast<int64_t>(items_.size()); }
  const Fields& fields() const override { return fields_; }
  int64_t items(int64_t index) const override { return items_[static_cast<size_t>(index)]; }
  // Not the layer's, which is that of the data set below: this one's data are in memory.
  // NOLINTNEXTLINE(bugprone-parent-virtual-call)
  std::string digest() const override { return Dataset::digest(); }
  void write(int64_t index, const Sample& to) const override {
    for (size_t i = 0; i < fields_.count(); ++i) {
      const size_t bytes = to.bytes(i).size();
      std::memcpy(to.bytes(i).data(), columns_[i].data() + static_cast<size_t>(index) * bytes,
                  bytes);
    }
  }

 private:
  std::span<std::byte> place(size_t field, size_t sample) {
    const auto bytes = static_cast<size_t>(bytes_of(fields_[field]));
    return std::span(columns_[field]).subspan(sample * bytes, bytes);
  }

  const Fields fields_;
  std::vector<std::vector<std::byte>> columns_;  ///< by field
  std::vector<int64_t> items_;                   ///< by sample
};

// Room for the sample, filled with `before`, after it was written.
SampleRoom written(const Dataset& dataset, int64_t sample, std::byte before) {
  SampleRoom room(dataset.fields());
  for (const std::span<std::byte> field : room.memory()) std::ranges::fill(field, before);
  write_sample(dataset, sample, 0, room.memory());
  return room;
}

// A sample that differs at each call would make the model depend on which worker reads it.
void require_same_bytes_again(const Dataset& dataset, int64_t sample, const std::string& split) {
  const SampleRoom once = written(dataset, sample, std::byte{0x00});
  const SampleRoom again = written(dataset, sample, std::byte{0xff});
  for (size_t i = 0; i < dataset.fields().count(); ++i)
    if (!std::ranges::equal(once.memory()[i], again.memory()[i]))
      throw BadInput(
          "data: field '{}' of sample {} of the {} split differs when it is written again: write() "
          "must write every element, and the same values for the same index and epoch",
          dataset.fields()[i].name, sample, split);
}

}  // namespace

int64_t elements(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t dimension : shape) product *= dimension;
  return product;
}

std::optional<int64_t> checked_elements(std::span<const int64_t> dimensions) {
  int64_t product = 1;
  for (const int64_t dimension : dimensions)
    if (dimension < 0 || __builtin_mul_overflow(product, dimension, &product)) return std::nullopt;
  return product;
}

std::string to_string(const Shape& shape) {
  return fmt::format("{}", fmt::join(shape, " x "));
}

int64_t bytes_of(const Field& field) {
  return elements(field.shape) * static_cast<int64_t>(lockstep::bytes_of(field.type));
}

int64_t bytes_of(const Fields& fields) {
  int64_t bytes = 0;
  for (size_t i = 0; i < fields.count(); ++i) bytes += bytes_of(fields[i]);
  return bytes;
}

Field label_field(std::vector<std::string> class_names) {
  return {.name = "label", .type = Type::i64, .categories = std::move(class_names)};
}

SampleRoom::SampleRoom(const Fields& fields) : size_(0) {
  for (size_t i = 0; i < fields.count(); ++i) size_ += aligned(bytes_of(fields[i]));
  room_ = std::make_unique<std::byte[]>(size_);
  std::byte* place = room_.get();
  for (size_t i = 0; i < fields.count(); ++i) {
    memory_.emplace_back(place, static_cast<size_t>(bytes_of(fields[i])));
    place += aligned(bytes_of(fields[i]));
  }
}

void write_sample(const Dataset& dataset, int64_t index, int64_t epoch,
                  std::span<const std::span<std::byte>> memory) {
  write_sample(dataset, index, Sample(dataset.fields(), memory, epoch));
}

void write_sample(const Dataset& dataset, int64_t index, const Sample& to) {
  try {
    dataset.write(index, to);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const UnreadableSample&) {
    throw;
  } catch (const std::exception& error) {
    throw UnreadableSample("data: sample {} cannot be read: {}", index, error.what());
  } catch (...) {
    throw UnreadableSample(
        "data: sample {} cannot be read: it threw an exception that is not a std::exception",
        index);
  }
}

int64_t items_of(const Dataset& dataset, int64_t index) {
  const int64_t items = dataset.items(index);
  if (items < 0)
    throw UnreadableSample("data: sample {} counts as {} items: expected 0 or more", index, items);
  return items;
}

std::vector<int64_t> spread_samples(const Dataset& dataset, int64_t most) {
  const int64_t size = dataset.size();
  const int64_t count = is_larger(dataset, kReadAll) ? std::min(size, most) : size;
  std::vector<int64_t> samples(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    samples[static_cast<size_t>(i)] = static_cast<int64_t>(static_cast<__int128>(i) * size / count);
  return samples;
}

void check_dataset(const Dataset& dataset, const std::string& split) {
  if (dataset.size() < 1 || dataset.size() > kMostSamples)
    throw BadInput("data: the {} split has {} samples: expected 1 to {}", split, dataset.size(),
                   kMostSamples);
  const Fields& fields = dataset.fields();
  if (fields.inputs.empty()) throw BadInput("data: the {} split declares no input", split);
  std::set<std::string> names;
  for (size_t i = 0; i < fields.count(); ++i) {
    if (!names.insert(fields[i].name).second)
      throw BadInput("data: the {} split has two fields named '{}'", split, fields[i].name);
    Shape bytes = fields[i].shape;
    bytes.push_back(static_cast<int64_t>(lockstep::bytes_of(fields[i].type)));
    const auto count = checked_elements(bytes);
    if (!count || *count < 1)
      throw BadInput(
          "data: field '{}' of the {} split has the shape {}: expected dimensions of 1 "
          "or more",
          fields[i].name, split, to_string(fields[i].shape));
  }
  for (const int64_t sample : {int64_t{0}, dataset.size() - 1})
    require_same_bytes_again(dataset, sample, split);
}

std::shared_ptr<const Dataset> in_memory_if_small(std::shared_ptr<const Dataset> dataset) {
  if (is_larger(*dataset, kKeepInMemory)) return dataset;
  return std::make_shared<InMemory>(std::move(dataset));
}

}  // namespace data
}  // namespace lockstep
