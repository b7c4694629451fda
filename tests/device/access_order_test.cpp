#include "device/access_order.h"

#include <gtest/gtest.h>

namespace lockstep::device {
namespace {

const std::string kBy = "test";

Access read(size_t stream, Stream::Moment moment, int64_t begin = 0, int64_t end = 100) {
  return {.stream = stream, .moment = moment, .begin = begin, .end = end, .by = &kBy};
}

Access write(size_t stream, Stream::Moment moment, int64_t begin = 0, int64_t end = 100) {
  Access access = read(stream, moment, begin, end);
  access.written = true;
  return access;
}

class Order : public testing::Test {
 protected:
  bool races(const Access& access) { return order.add(history, access).has_value(); }

  AccessOrder order;
  AccessHistory history;
  const size_t a = order.add_stream(), b = order.add_stream(), c = order.add_stream();
};

TEST_F(Order, OfOneStreamNeedsNoWaits) {
  EXPECT_FALSE(races(write(a, 1)));
  EXPECT_FALSE(races(read(a, 2)));
  EXPECT_FALSE(races(write(a, 3)));
}

TEST_F(Order, IsMissingWhereAnotherStreamReadsWhatWasWritten) {
  EXPECT_FALSE(races(write(a, 1)));
  const auto earlier = order.add(history, read(b, 1));
  ASSERT_TRUE(earlier);
  EXPECT_EQ(earlier->stream, a);
  EXPECT_TRUE(earlier->written);
}

TEST_F(Order, IsMissingWhereAnotherStreamWritesWhatIsRead) {
  EXPECT_FALSE(races(read(a, 1)));
  EXPECT_FALSE(races(read(b, 1)));
  EXPECT_TRUE(races(write(b, 2)));
}

TEST_F(Order, ComesFromAnEvent) {
  EXPECT_FALSE(races(write(a, 1)));
  order.wait(b, order.at(a, 1));
  EXPECT_FALSE(races(read(b, 1)));
  EXPECT_FALSE(races(write(b, 2)));
  EXPECT_TRUE(races(read(a, 2)));
}

TEST_F(Order, DoesNotComeFromAnEventThatWasRecordedTooEarly) {
  const Clock early = order.at(a, 1);
  EXPECT_FALSE(races(write(a, 2)));
  order.wait(b, early);
  EXPECT_TRUE(races(read(b, 1)));
}

TEST_F(Order, ComesFromEventsOverAThirdStream) {
  EXPECT_FALSE(races(write(a, 1)));
  order.wait(b, order.at(a, 1));
  order.wait(c, order.at(b, 1));
  EXPECT_FALSE(races(write(c, 1)));
}

TEST_F(Order, ComesFromAHostThatHasWaited) {
  EXPECT_FALSE(races(write(a, 1)));
  order.host_waited(order.at(a, 1));
  EXPECT_FALSE(races(write(b, 1)));
  EXPECT_EQ(history.size(), 1);
}

TEST_F(Order, IsNotNeededForDifferentBytes) {
  EXPECT_FALSE(races(write(a, 1, 0, 50)));
  EXPECT_FALSE(races(write(b, 1, 50, 100)));
  EXPECT_TRUE(races(read(c, 1, 49, 51)));
}

TEST_F(Order, IsNotJudgedForTwoAccessesWithGaps) {
  Access one = write(a, 1, 0, 96), other = write(b, 1, 4, 100), same = write(c, 1, 0, 96);
  one.dense = other.dense = same.dense = false;
  EXPECT_FALSE(races(one));
  EXPECT_FALSE(races(other));
  EXPECT_TRUE(races(same));
  EXPECT_TRUE(races(read(b, 2)));
}

TEST_F(Order, KeepsOneOfManyAccessesWithTheSameGaps) {
  const auto strided = [](Access access) {
    access.dense = false;
    return access;
  };
  for (Stream::Moment i = 1; i < 1000; ++i) EXPECT_FALSE(races(strided(read(a, i))));
  EXPECT_EQ(history.size(), 1);
  EXPECT_TRUE(races(write(b, 1)));
  EXPECT_TRUE(races(strided(write(b, 1)))) << "of the same range";
  order.wait(b, order.at(a, 999));
  EXPECT_FALSE(races(strided(write(b, 2))));
  EXPECT_EQ(history.size(), 1);
  EXPECT_TRUE(races(read(c, 1)));
}

TEST_F(Order, KeepsADenseAccessBesideOneWithGaps) {
  EXPECT_FALSE(races(write(a, 1)));
  Access gaps = write(a, 2), other = write(b, 1, 4, 96);
  gaps.dense = other.dense = false;
  EXPECT_FALSE(races(gaps));
  EXPECT_TRUE(races(other)) << "it overlaps the first one only";
}

TEST_F(Order, KeepsOnlyTheAccessesThatMatter) {
  for (Stream::Moment i = 1; i < 1000; ++i)
    EXPECT_FALSE(races(i % 3 == 0 ? write(a, i) : read(a, i)));
  EXPECT_LE(history.size(), 2);
}

}  // namespace
}  // namespace lockstep::device
