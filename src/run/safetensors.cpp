// A safetensors file: 8 bytes of header length (little endian), a JSON header that gives each
// tensor's type, shape and [begin, end) in the data section, then the data.
#include "run/safetensors.h"

#include <fmt/ranges.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/digest.h"
#include "base/shipped.h"
#include "base/units.h"
#include "lockstep/error.h"

namespace lockstep::run {
namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "safetensors is little endian");

constexpr const char* kDigestKey = "sha256";
constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kDataAlignment = 64;

int64_t element_bytes(const std::string& type) {
  static const std::map<std::string, int64_t> sizes = {
      {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
      {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U8", 1},   {"BOOL", 1}};
  const auto found = sizes.find(type);
  return found == sizes.end() ? 0 : found->second;
}

// Covers the metadata too, except for the digest itself.
std::string file_digest(std::span<const TensorView> tensors, const Metadata& metadata) {
  Digest all(Digest::Kind::sha256);
  for (const auto& [key, value] : metadata)
    if (key != kDigestKey) all.add(fmt::format("{}={}\n", key, value));
  all.add(digest(tensors));
  return all.hex();
}

std::string make_header(std::span<const TensorView> tensors, const Metadata& metadata) {
  Json header;
  header["__metadata__"] = metadata;
  header["__metadata__"][kDigestKey] = file_digest(tensors, metadata);
  size_t offset = 0;
  for (const TensorView& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.type},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.append((kDataAlignment - (kLengthBytes + text.size()) % kDataAlignment) % kDataAlignment,
              ' ');
  return text;
}

// Checks every number of the header against the file's actual size.
TensorView parse_tensor(const std::string& name, const Json& entry,
                        std::span<const std::byte> data) {
  TensorView tensor{name, entry.at("dtype"), entry.at("shape"), {}};
  const auto begin = entry.at("data_offsets").at(0).get<uint64_t>();
  const auto end = entry.at("data_offsets").at(1).get<uint64_t>();
  if (begin > end || end > data.size())
    throw Error(fmt::format("tensor '{}' ends at byte {} of {}", name, end, data.size()));
  auto expected = static_cast<uint64_t>(element_bytes(tensor.type));
  if (expected == 0) throw Error(fmt::format("tensor '{}' has unknown type {}", name, tensor.type));
  for (const int64_t side : tensor.shape) {
    if (side < 0 || __builtin_mul_overflow(expected, static_cast<uint64_t>(side), &expected))
      throw Error(fmt::format("tensor '{}' has an impossible shape", name));
  }
  if (expected != end - begin)
    throw Error(fmt::format("tensor '{}' has {} bytes where its shape needs {}", name, end - begin,
                            expected));
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
}

// torch.save writes a zip archive.
bool is_pytorch_file(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{'P'} && bytes[1] == std::byte{'K'};
}

void parse(Safetensors& file) {
  if (is_pytorch_file(file.storage))
    throw Error(fmt::format("it was written by torch.save; write safetensors, as {} does",
                            shipped("docs/save_checkpoint.py")));
  uint64_t header_length = 0;
  if (file.storage.size() < kLengthBytes) throw Error("shorter than its header");
  std::memcpy(&header_length, file.storage.data(), kLengthBytes);
  if (header_length > file.storage.size() - kLengthBytes) throw Error("shorter than its header");
  const auto* text = reinterpret_cast<const char*>(file.storage.data() + kLengthBytes);
  const Json header = Json::parse(text, text + header_length);
  const auto data = std::span<const std::byte>(file.storage).subspan(kLengthBytes + header_length);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__")
      file.metadata = entry.get<Metadata>();
    else
      file.tensors.push_back(parse_tensor(name, entry, data));
  }
  if (file.metadata.contains(kDigestKey) &&
      file.metadata[kDigestKey] != file_digest(file.tensors, file.metadata))
    throw Error("its contents do not match its digest");
}

std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path))
    throw BadInput("{}: {}", path.string(),
                   std::filesystem::exists(path) ? "is not a regular file" : "no such file");
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw BadInput("{}: cannot be read: {}", path.string(), std::strerror(errno));
  const auto size = static_cast<std::streamoff>(file.tellg());
  std::vector<std::byte> bytes;
  try {
    bytes.resize(static_cast<size_t>(size));
  } catch (const std::bad_alloc&) {
    throw BadInput("{}: its {} do not fit in memory", path.string(), format_bytes(size));
  }
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), size);
  if (file.gcount() != size) throw BadInput("{}: cannot be read completely", path.string());
  return bytes;
}

}  // namespace

std::string digest(std::span<const TensorView> tensors) {
  Digest digest(Digest::Kind::sha256);
  for (const TensorView& tensor : tensors) {
    digest.add(fmt::format("{} {} [{}]\n", tensor.name, tensor.type, fmt::join(tensor.shape, ",")));
    digest.add(tensor.bytes);
  }
  return digest.hex();
}

void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const Metadata& metadata) {
  const std::string header = make_header(tensors, metadata);
  const uint64_t length = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const TensorView& tensor : tensors) file.write(tensor.bytes);
  file.commit();
}

const TensorView* Safetensors::find(const std::string& name) const {
  for (const TensorView& tensor : tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

Safetensors read_safetensors(const std::filesystem::path& path) {
  Safetensors file;
  file.storage = read_bytes(path);
  try {
    parse(file);
  } catch (const std::exception& error) {
    throw BadInput("{}: not a valid safetensors file: {}", path.string(), error.what());
  }
  return file;
}

}  // namespace lockstep::run
