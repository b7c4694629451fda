#include "base/digest.h"

#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "lockstep/error.h"

namespace lockstep {
namespace {

const EVP_MD* algorithm(Digest::Kind kind) {
  switch (kind) {
    case Digest::Kind::md5:
      return EVP_md5();
    case Digest::Kind::sha256:
      return EVP_sha256();
    case Digest::Kind::sha512:
      return EVP_sha512();
  }
  return nullptr;
}

}  // namespace

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Digest::Digest(Kind kind) : state_(std::make_unique<State>()) {
  if (EVP_DigestInit_ex(state_->context, algorithm(kind), nullptr) != 1)
    throw Error("libcrypto does not support this digest; a FIPS build of OpenSSL has no md5");
}

Digest::~Digest() = default;

void Digest::add(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context, bytes.data(), &size);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

std::string digest_file(Digest::Kind kind, const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw BadInput("{}: cannot be read: {}", path.string(), std::strerror(errno));
  Digest digest(kind);
  std::vector<char> piece(1 << 20);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0)
    digest.add(std::string_view(piece.data(), static_cast<size_t>(file.gcount())));
  return digest.hex();
}

}  // namespace lockstep
