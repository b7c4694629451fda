#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// An incremental message digest.
///
///     Digest digest(Digest::Kind::sha256);
///     digest.add(bytes);
///     std::string hex = digest.hex();
class Digest {
 public:
  enum class Kind { md5, sha256, sha512 };

  explicit Digest(Kind kind);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }

  /// Ends the digest: call once.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The digest of a whole file. Throws BadInput if it cannot be read.
std::string digest_file(Digest::Kind kind, const std::filesystem::path& path);

}  // namespace lockstep
