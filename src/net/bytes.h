#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace lockstep::net {

/// Encodes what goes over the network: integers little-endian, texts with their length in front.
class ByteWriter {
 public:
  template <typename Integer>
  ByteWriter& put(Integer value) {
    static_assert(std::is_integral_v<Integer>);
    auto rest = static_cast<std::make_unsigned_t<Integer>>(value);
    for (size_t i = 0; i < sizeof(Integer); ++i)
      bytes_.push_back(static_cast<char>(static_cast<uint64_t>(rest) >> (8 * i) & 0xff));
    return *this;
  }

  ByteWriter& put_bytes(std::span<const std::byte> bytes) {
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return *this;
  }

  ByteWriter& put_bytes(std::string_view bytes) {
    bytes_.append(bytes);
    return *this;
  }

  ByteWriter& put_text(std::string_view text) {
    put(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Decodes it. Missing bytes read as zero and make `complete` false, so that a parser reads all its
/// fields first and checks once. No length is trusted beyond the bytes at hand.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  explicit ByteReader(std::string_view bytes) : rest_(std::as_bytes(std::span(bytes))) {}

  template <typename Integer>
  Integer get() {
    static_assert(std::is_integral_v<Integer>);
    uint64_t value = 0;
    const std::span<const std::byte> from = take(sizeof(Integer));
    for (size_t i = 0; i < from.size(); ++i) value |= std::to_integer<uint64_t>(from[i]) << (8 * i);
    return static_cast<Integer>(value);
  }

  template <size_t N>
  void get_bytes(std::span<std::byte, N> into) {
    const std::span<const std::byte> from = take(into.size());
    if (!from.empty()) std::memcpy(into.data(), from.data(), from.size());
  }

  std::string get_text(size_t longest) {
    const auto size = get<uint32_t>();
    if (size > longest) broken_ = true;
    const std::span<const std::byte> from = take(size);
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }

  /// Every field was there, and no bytes are left over.
  bool complete() const { return !broken_ && rest_.empty(); }
  bool broken() const { return broken_; }

 private:
  std::span<const std::byte> take(size_t size) {
    if (broken_ || size > rest_.size()) {
      broken_ = true;
      return {};
    }
    const std::span<const std::byte> taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  std::span<const std::byte> rest_;
  bool broken_ = false;
};

}  // namespace lockstep::net
