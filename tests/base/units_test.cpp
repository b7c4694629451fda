#include "base/units.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

TEST(Units, ReadsSizesWithAndWithoutUnits) {
  EXPECT_EQ(parse_bytes("1500"), 1500);
  EXPECT_EQ(parse_bytes("64K"), 65536);
  EXPECT_EQ(parse_bytes("25MiB"), 26214400);
  EXPECT_EQ(parse_bytes("8 GiB"), int64_t{8} << 30);
  EXPECT_EQ(parse_bytes("1.5kb"), 1536);
}

TEST(Units, RefusesWhatIsNotASize) {
  for (const char* text : {"", "abc", "-1", "5 parsecs", "1e30", "K", "nan", "inf"})
    EXPECT_THROW(parse_bytes(text), BadInput) << text;
  expect_bad_input([] { parse_bytes("8388608TiB"); }, {"more than memory can be"});
}

TEST(Units, WritesSizesForPeople) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(25 << 20), "25 MiB");
}

TEST(Units, WritesDurationsForPeople) {
  EXPECT_EQ(format_duration(3.25), "3.2 s");
  EXPECT_EQ(format_duration(75), "1:15");
  EXPECT_EQ(format_duration(4000), "1:06:40");
}

TEST(Units, WritesLossesWithFourDigits) {
  EXPECT_EQ(format_loss(2.302585), "2.3026");
  EXPECT_EQ(format_loss(0.1), "0.1000");
  EXPECT_EQ(format_loss(0.00088791), "0.0008879");
  EXPECT_EQ(format_loss(0), "0");
}

TEST(Units, GroupsDigitsByThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(60000), "60,000");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
}

}  // namespace
}  // namespace lockstep
