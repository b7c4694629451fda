#include "base/digest.h"

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "expect_error.h"
#include "lockstep/error.h"
#include "temporary_folder.h"

namespace lockstep {
namespace {

TEST(Digest, GivesTheStandardsTestVectors) {
  Digest md5(Digest::Kind::md5);
  md5.add("abc");
  EXPECT_EQ(md5.hex(), "900150983cd24fb0d6963f7d28e17f72");
  Digest sha256(Digest::Kind::sha256);
  sha256.add("a");
  sha256.add("bc");
  EXPECT_EQ(sha256.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, OfAFileIsThatOfItsBytes) {
  TemporaryFolder folder;
  write_file_atomically(folder / "abc", "abc");
  EXPECT_EQ(digest_file(Digest::Kind::md5, folder / "abc"), "900150983cd24fb0d6963f7d28e17f72");
}

TEST(Digest, OfAMissingFileNamesIt) {
  EXPECT_NE(message_of<BadInput>([] {
              digest_file(Digest::Kind::md5, "/no/such/file");
            }).find("/no/such/file"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
