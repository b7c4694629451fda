#include "data/download.h"

#include <stdexcept>

#include "base/atomic_file.h"
#include "base/digest.h"
#include "data/local_server.h"
#include "expect_error.h"
#include "scoped_variable.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

struct Site {
  TemporaryFolder folder;
  ScopedVariable no_proxy{"no_proxy", "127.0.0.1"};
  std::string file = std::string(100'000, 'a') + std::string(100'000, 'b');

  std::string sha512() const {
    Digest digest(Digest::Kind::sha512);
    digest.add(file);
    return digest.hex();
  }
  void get(LocalServer& server) const { download({server.url(), folder / "file.tgz", sha512()}); }
  void expect_whole() const {
    EXPECT_EQ(read_file(folder / "file.tgz"), file);
    EXPECT_FALSE(std::filesystem::exists(folder / "file.tgz.part"));
  }
  std::function<std::string(const std::string&)> with_ranges() const {
    return [this](const std::string& request) { return serve_with_ranges(request, file); };
  }
};

TEST(Download, BringsAFileAndReportsProgress) {
  const Site site;
  LocalServer server(site.with_ranges());
  int64_t last = 0;
  download(
      {server.url(), site.folder / "file.tgz", site.sha512(), [&](int64_t done, int64_t total) {
         EXPECT_EQ(total, 200'000);
         EXPECT_GE(done, last);
         last = done;
       }});
  EXPECT_EQ(last, 200'000);
  site.expect_whole();
}

TEST(Download, DoesNotAskAgainForWhatIsHere) {
  const Site site;
  LocalServer server(site.with_ranges());
  site.get(server);
  site.get(server);
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST(Download, ContinuesAPartialFile) {
  const Site site;
  site.folder.write("file.tgz.part", site.file.substr(0, 150'000));
  LocalServer server(site.with_ranges());
  site.get(server);
  site.expect_whole();
  ASSERT_EQ(server.requests().size(), 1U);
  EXPECT_NE(server.requests()[0].find("Range: bytes=150000-"), std::string::npos);
}

TEST(Download, TakesAPartialFileThatIsWholeAlready) {
  const Site site;
  site.folder.write("file.tgz.part", site.file);
  LocalServer server(site.with_ranges());
  site.get(server);
  site.expect_whole();
}

TEST(Download, StartsAgainWhereTheServerCannotContinue) {
  const Site site;
  site.folder.write("file.tgz.part", site.file.substr(0, 150'000));
  LocalServer server(
      [&](const std::string&) { return serve_with_ranges("without a range", site.file); });
  site.get(server);
  site.expect_whole();
}

TEST(Download, StartsAgainWhenThePartialFileWasOfAnother) {
  const Site site;
  site.folder.write("file.tgz.part", std::string(150'000, 'z'));
  LocalServer server(site.with_ranges());
  site.get(server);
  site.expect_whole();
}

TEST(Download, KeepsWhatArrivedBeforeTheConnectionBroke) {
  const Site site;
  {
    LocalServer broken([&](const std::string& request) {
      return serve_with_ranges(request, site.file).substr(0, 120'000);
    });
    expect_bad_input([&] { site.get(broken); },
                     {broken.url(), "kept in", "file.tgz.part", "run the command again", "--from"});
  }
  EXPECT_GT(std::filesystem::file_size(site.folder / "file.tgz.part"), 100'000U);
  LocalServer server(site.with_ranges());
  site.get(server);
  site.expect_whole();
  EXPECT_NE(server.requests()[0].find("Range: bytes="), std::string::npos);
}

TEST(Download, RefusesAnotherFile) {
  const Site site;
  LocalServer server(
      [](const std::string& request) { return serve_with_ranges(request, "something else"); });
  expect_bad_input([&] { site.get(server); }, {server.url(), "sha512", "--from"});
  EXPECT_FALSE(std::filesystem::exists(site.folder / "file.tgz"));
  EXPECT_FALSE(std::filesystem::exists(site.folder / "file.tgz.part"));
}

TEST(Download, NamesTheServersAnswer) {
  const Site site;
  LocalServer server(
      [](const std::string&) { return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"; });
  expect_bad_input([&] { site.get(server); }, {server.url(), "404"});
}

TEST(Download, StopsWhenProgressThrows) {
  const Site site;
  LocalServer server(site.with_ranges());
  EXPECT_THROW(download({server.url(), site.folder / "file.tgz", site.sha512(),
                         [](int64_t, int64_t) { throw std::runtime_error("enough"); }}),
               std::runtime_error);
}

TEST(Download, RefusesOtherProtocols) {
  const Site site;
  const auto file = site.folder.write("local", site.file);
  expect_bad_input(
      [&] { download({"file://" + file.string(), site.folder / "file.tgz", site.sha512()}); },
      {"file://"});
}

}  // namespace
}  // namespace lockstep::data
