#include "base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "expect_error.h"
#include "lockstep/error.h"
#include "temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(AtomicFile, ReplacesTheFileOnCommit) {
  TemporaryFolder folder;
  write_file_atomically(folder / "f", "old");
  write_file_atomically(folder / "f", "new");
  EXPECT_EQ(read_file(folder / "f"), "new");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, LeavesTheOldFileAndNoTemporaryWithoutCommit) {
  TemporaryFolder folder;
  write_file_atomically(folder / "f", "old");
  {
    AtomicFile(folder / "f").write("half");
  }
  EXPECT_EQ(read_file(folder / "f"), "old");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, ReplacesNoDeviceAndNoPipe) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_bad_input([&] { write_file_atomically(folder / "pipe", "text"); },
                   {"pipe", "not a regular file"});
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
}

TEST(AtomicFile, WritesWhereALinkPoints) {
  TemporaryFolder folder;
  write_file_atomically(folder / "f", "old");
  fs::create_symlink(folder / "f", folder / "link");
  write_file_atomically(folder / "link", "new");
  EXPECT_EQ(read_file(folder / "f"), "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
}

// A file-size limit fails a write half-way, as a full disk does.
TEST(AtomicFile, KeepsTheOldFileWhenAWriteFails) {
  TemporaryFolder folder;
  write_file_atomically(folder / "f", "old");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message =
      message_of<BadInput>([&] { write_file_atomically(folder / "f", std::string(5000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(message.find("cannot write"), std::string::npos) << message;
  EXPECT_EQ(read_file(folder / "f"), "old");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, SaysWhyAFileCannotBeCreated) {
  const std::string message =
      message_of<BadInput>([] { AtomicFile("/no/such/folder/f").write("x"); });
  EXPECT_NE(message.find("No such file or directory"), std::string::npos) << message;
}

}  // namespace
}  // namespace lockstep
