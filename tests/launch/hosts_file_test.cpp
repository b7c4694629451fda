#include "launch/hosts_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "expect_error.h"
#include "launch/remote_job.h"
#include "launch/ssh.h"
#include "temporary_folder.h"

namespace lockstep::launch {
namespace {

class HostsFile : public ::testing::Test {
 protected:
  std::vector<ListedHost> read(const std::string& text, int default_slots = 1) const {
    std::ofstream(folder_ / "hosts") << text;
    return read_hosts(folder_ / "hosts", default_slots);
  }

  TemporaryFolder folder_;
};

TEST_F(HostsFile, ListsAHostALine) {
  const auto hosts = read("# two\nnode1 slots=4\n\n  user@10.0.0.7  # the other\n", 2);
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(hosts[0].name, "node1");
  EXPECT_EQ(hosts[0].slots, 4);
  EXPECT_EQ(hosts[1].name, "user@10.0.0.7");
  EXPECT_EQ(hosts[1].slots, 2);
  EXPECT_EQ(address_of(hosts[0]), "node1");
  EXPECT_EQ(address_of(hosts[1]), "10.0.0.7");
}

TEST_F(HostsFile, NamesTheLineThatIsWrong) {
  expect_bad_input([&] { read("node1\nnode2 slots=0\n"); }, {"line 2", "slots=0", "slots=256"});
  expect_bad_input([&] { read("node1\nnode2 slots=two\n"); }, {"line 2", "slots=two"});
  expect_bad_input([&] { read("node1 max_slots=2\n"); }, {"line 1", "max_slots=2"});
  expect_bad_input([&] { read("-oProxyCommand=x\n"); }, {"line 1", "not a host's name"});
  expect_bad_input([&] { read("node1\nnode1\n"); }, {"line 2", "listed twice"});
  expect_bad_input([&] { read("# nothing\n"); }, {"lists no host"});
  expect_bad_input([&] { read_hosts(folder_ / "nowhere", 1); }, {"nowhere"});
}

TEST(HostNames, AreSeparatedByCommas) {
  const std::vector<ListedHost> hosts = parse_hosts("node1,user@node2");
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(hosts[0].name, "node1");
  EXPECT_EQ(hosts[1].name, "user@node2");
  EXPECT_EQ(address_of(hosts[1]), "node2");
}

TEST(HostNames, ThatAreNoneAreRefusedAsInAFile) {
  expect_bad_input([] { parse_hosts("a,b,a"); }, {"--hosts a,b,a", "listed twice"});
  expect_bad_input([] { parse_hosts("a,-o"); }, {"'-o' is not a host's name"});
  expect_bad_input([] { parse_hosts(","); }, {"--hosts ','", "HOST,HOST"});
}

TEST(HostFailed, SaysBothWhatFailedAndWhatToDo) {
  const HostFailed error("node1", "did not answer", "start it", 69);
  EXPECT_STREQ(error.what(), "host node1: did not answer; start it");
  EXPECT_EQ(error.failure(), "did not answer");
  EXPECT_EQ(error.cure(), "start it");
  EXPECT_EQ(error.exit_code(), 69);
}

TEST(RemoteJob, ArrivesAsItWasSent) {
  const RemoteJob job{
      .host = "node2",
      .folder = "/a folder",
      .environment = {{"LOCKSTEP_DATA", "/d \"quoted\""}},
      .program = {"./p", "a\nb", ""},
      .workers = 2,
      .first = {
          .rank = 3, .world = 5, .master_host = "node1", .master_port = 4711, .key = "secret"}};
  const std::string line = encode(job);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const RemoteJob got = parse_remote_job(line);
  EXPECT_EQ(got.folder, job.folder);
  EXPECT_EQ(got.environment, job.environment);
  EXPECT_EQ(got.program, job.program);
  const std::vector<Job> jobs = jobs_of(got);
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[1].rank, 4);
  EXPECT_EQ(jobs[1].local_rank, 1);
  EXPECT_EQ(jobs[1].world, 5);
  EXPECT_EQ(jobs[1].master_host, "node1");
  EXPECT_EQ(jobs[1].master_port, 4711);
  EXPECT_EQ(jobs[1].key, "secret");
  expect_bad_input([] { parse_remote_job("hello"); }, {"--hosts"});
}

}  // namespace
}  // namespace lockstep::launch
