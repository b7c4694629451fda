#include "base/fingerprint.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace lockstep {
namespace {

TEST(Fingerprint, IsTheSameForTheSameBytes) {
  const std::vector<std::byte> bytes(1000, std::byte{7});
  const std::vector<std::byte> copy = bytes;
  EXPECT_EQ(fingerprint(bytes), fingerprint(copy));
}

TEST(Fingerprint, TellsEverySingleBitAndEveryLengthApart) {
  std::set<uint64_t> seen;
  size_t count = 0;
  for (size_t length = 0; length <= 75; ++length) {
    std::vector<std::byte> bytes(length);
    seen.insert(fingerprint(bytes));
    ++count;
    for (size_t bit = 0; bit < 8 * length; ++bit) {
      bytes[bit / 8] ^= std::byte(1U << bit % 8);
      seen.insert(fingerprint(bytes));
      bytes[bit / 8] ^= std::byte(1U << bit % 8);
      ++count;
    }
  }
  EXPECT_EQ(seen.size(), count);
}

TEST(Fingerprint, TellsWordsThatChangedPlacesApart) {
  std::vector<uint64_t> words = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const uint64_t before = fingerprint(std::as_bytes(std::span(words)));
  std::swap(words[0], words[4]);
  EXPECT_NE(fingerprint(std::as_bytes(std::span(words))), before);
}

}  // namespace
}  // namespace lockstep
