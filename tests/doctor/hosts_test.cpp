#include "doctor/hosts.h"

#include <gtest/gtest.h>

namespace lockstep::doctor {
namespace {

const SshTarget kUsual{.host = "node1", .port = 22};

TEST(Hosts, AreWhereSshSaysThatItConnectsTo) {
  const SshTarget target = target_in("user me\nhostname 10.0.0.7\nport 2222\n", kUsual);
  EXPECT_EQ(target.host, "10.0.0.7");
  EXPECT_EQ(target.port, 2222);
}

TEST(Hosts, AreFoundAfterLinesWithoutAValue) {
  const SshTarget target =
      target_in("proxycommand\nhostname 10.0.0.7\nlocalcommand \nport 2222\n", kUsual);
  EXPECT_EQ(target.host, "10.0.0.7");
  EXPECT_EQ(target.port, 2222);
}

TEST(Hosts, AreTheUsualWhereSshSaysNothingOfUse) {
  const SshTarget target = target_in("hostname\nport many\n", kUsual);
  EXPECT_EQ(target.host, "node1");
  EXPECT_EQ(target.port, 22);
}

}  // namespace
}  // namespace lockstep::doctor
