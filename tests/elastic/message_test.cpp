#include "elastic/message.h"

#include <gtest/gtest.h>

namespace lockstep::elastic {
namespace {

TEST(Message, IsReadAsItWasWritten) {
  const auto hello = parse<Hello>(encode(Hello{{{"the batch", "128"}}, "node7", "identity", 4711}));
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->facts, (Facts{{"the batch", "128"}}));
  EXPECT_EQ(hello->host, "node7");
  EXPECT_EQ(hello->pid, 4711);
  const auto go = parse<Go>(encode(Go{3, 1, 2, 29500, true, "rank 1"}));
  ASSERT_TRUE(go);
  EXPECT_EQ(go->generation, 3);
  EXPECT_EQ(go->port, 29500);
  EXPECT_TRUE(go->last);
  EXPECT_EQ(parse<Control>(encode(Control{}))->workers, std::nullopt);
  EXPECT_EQ(parse<Control>(encode(Control{4}))->workers, 4);
  EXPECT_EQ(parse<Fail>(encode(Fail{"disk full", 2}))->exit_code, 2);
}

TEST(Message, OfAnotherKindIsNotTaken) {
  EXPECT_FALSE(parse<Bye>(encode(Beat{3})));
  EXPECT_FALSE(parse<Ready>("not json"));
  EXPECT_FALSE(parse<Ready>("{}"));
}

TEST(Message, WithAnAbsurdNumberIsNotTaken) {
  for (const char* number : {"1.5", "true", "4294967299", "1e300", "-99999999999", "\"4\""})
    EXPECT_FALSE(parse<Control>(std::string(R"({"kind": "control", "workers": )") + number + "}"))
        << number;
}

}  // namespace
}  // namespace lockstep::elastic
