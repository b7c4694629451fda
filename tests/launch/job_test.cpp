#include "launch/job.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <list>
#include <map>
#include <set>

#include "expect_error.h"
#include "scoped_variable.h"

namespace lockstep::launch {
namespace {

using Variables = std::map<std::string, std::string>;

// An environment in which no launcher has left anything but `variables`.
class Environment {
 public:
  explicit Environment(const Variables& variables) {
    for (const char* name : {"RANK",
                             "WORLD_SIZE",
                             "LOCAL_RANK",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "LOCKSTEP_JOB_KEY",
                             "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_RANK",
                             "PMIX_RANK",
                             "PMIX_SIZE",
                             "PMIX_LOCAL_RANK",
                             "PMI_RANK",
                             "PMI_SIZE",
                             "MPI_LOCALRANKID",
                             "SLURM_PROCID",
                             "SLURM_NTASKS",
                             "SLURM_LOCALID",
                             "SLURM_JOB_NODELIST",
                             "SLURM_JOB_ID",
                             "SLURM_STEP_ID",
                             "TORCHELASTIC_RUN_ID",
                             "TORCHELASTIC_RESTART_COUNT",
                             "TORCHELASTIC_USE_AGENT_STORE"}) {
      before_.emplace_back(name, "");  // puts back what was there
      unsetenv(name);
    }
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::list<ScopedVariable> before_;
};

std::optional<Job> job_in(const Variables& variables) {
  const Environment environment(variables);
  return job_from_environment();
}

TEST(Job, IsNoneWithoutALauncher) {
  EXPECT_FALSE(job_in({}));
  EXPECT_FALSE(job_in({{"MASTER_ADDR", "node1"}, {"LOCKSTEP_JOB_KEY", "k"}}));
}

TEST(Job, IsRefusedWhereHalfOfItIsSaid) {
  expect_bad_input([] { job_in({{"RANK", "0"}}); }, {"RANK is set", "WORLD_SIZE is not"});
  expect_bad_input([] { job_in({{"WORLD_SIZE", "2"}}); }, {"WORLD_SIZE is set", "RANK is not"});
}

TEST(Job, IsReadFromTorchrunsVariables) {
  const auto job = job_in({{"RANK", "5"},
                           {"WORLD_SIZE", "8"},
                           {"LOCAL_RANK", "1"},
                           {"MASTER_ADDR", "node1"},
                           {"MASTER_PORT", "1234"},
                           {"LOCKSTEP_JOB_KEY", "secret"}});
  ASSERT_TRUE(job);
  EXPECT_EQ(job->rank, 5);
  EXPECT_EQ(job->world, 8);
  EXPECT_EQ(job->local_rank, 1);
  EXPECT_EQ(job->master_host, "node1");
  EXPECT_EQ(job->master_port, 1234);
  EXPECT_EQ(job->key, "secret");
  EXPECT_EQ(job->launcher, "torchrun's variables");
}

TEST(Job, IsToldByEveryLauncherWhoseVariablesAreSet) {
  const auto told_in = [](const Variables& variables) {
    const Environment environment(variables);
    return ranks_in_environment();
  };
  EXPECT_TRUE(told_in({}).empty());
  const auto told = told_in({{"RANK", "1"},
                             {"WORLD_SIZE", "8"},
                             {"SLURM_PROCID", "0"},
                             {"SLURM_NTASKS", "2"},
                             {"SLURM_STEP_ID", "0"}});
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].launcher, "torchrun's variables");
  EXPECT_EQ(told[0].rank, 1);
  EXPECT_EQ(told[0].world, 8);
  EXPECT_EQ(told[1].launcher, "Slurm");
  EXPECT_EQ(told[1].world_variable, "SLURM_NTASKS");
  EXPECT_EQ(told[1].world, 2);
  expect_bad_input([&] { told_in({{"RANK", "0"}}); }, {"WORLD_SIZE is not"});
}

TEST(Job, IsNoneWithoutTheLaunchersVariables) {
  std::list<ScopedVariable> set;
  for (const std::string& name : launcher_variables()) set.emplace_back(name, "1");
  EXPECT_ANY_THROW(job_from_environment()) << "rank 1 of 1";
  for (const std::string& name : launcher_variables()) unsetenv(name.c_str());
  EXPECT_FALSE(job_from_environment());
}

TEST(Job, MeetsAtOtherPortsWhereTorchrunListensAtItsOwn) {
  Variables variables = {{"RANK", "1"},
                         {"WORLD_SIZE", "2"},
                         {"MASTER_PORT", "29500"},
                         {"TORCHELASTIC_RUN_ID", "none"},
                         {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
  EXPECT_EQ(job_in(variables)->master_port, 29500);
  EXPECT_TRUE(job_in(variables)->spare_ports.empty());

  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  const auto ports_in = [](const Variables& some) {
    const auto job = job_in(some);
    std::vector<uint16_t> ports = job->spare_ports;
    ports.push_back(job->master_port);
    return ports;
  };
  const std::vector<uint16_t> ports = ports_in(variables);
  EXPECT_GT(ports.size(), 4U);
  EXPECT_EQ(std::set<uint16_t>(ports.begin(), ports.end()).size(), ports.size());
  for (const uint16_t port : ports) {
    EXPECT_GE(port, 20000);
    EXPECT_LT(port, 29000);
  }

  // All workers find the same, whichever restart their torchrun counts.
  variables["RANK"] = "0";
  variables["TORCHELASTIC_RESTART_COUNT"] = "3";
  EXPECT_EQ(ports_in(variables), ports);
  const std::string key = job_in(variables)->key;

  // Another job must not be met by mistake.
  variables["MASTER_PORT"] = "29501";
  EXPECT_NE(ports_in(variables), ports);
  EXPECT_NE(job_in(variables)->key, key);
  variables["MASTER_PORT"] = "29500";
  variables["TORCHELASTIC_RUN_ID"] = "another";
  EXPECT_NE(ports_in(variables), ports);
  EXPECT_NE(job_in(variables)->key, key);
}

TEST(Job, IsReadFromEveryLaunchersVariables) {
  struct Case {
    const char *launcher, *rank, *world, *local_rank;
  };
  for (const Case& each : {Case{"torchrun's variables", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
                           Case{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                "OMPI_COMM_WORLD_LOCAL_RANK"},
                           Case{"PMIx", "PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK"},
                           Case{"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
                           Case{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}}) {
    const auto job = job_in(
        {{each.rank, "3"}, {each.world, "4"}, {each.local_rank, "1"}, {"SLURM_STEP_ID", "0"}});
    ASSERT_TRUE(job) << each.launcher;
    EXPECT_EQ(job->launcher, each.launcher);
    EXPECT_EQ(job->rank, 3) << each.launcher;
    EXPECT_EQ(job->world, 4) << each.launcher;
    EXPECT_EQ(job->local_rank, 1) << each.launcher;
    const auto without_local_rank =
        job_in({{each.rank, "3"}, {each.world, "4"}, {"SLURM_STEP_ID", "0"}});
    ASSERT_TRUE(without_local_rank) << each.launcher;
    EXPECT_EQ(without_local_rank->local_rank, 0) << each.launcher;
  }
}

TEST(Job, IsThatOfTheInnermostLauncher) {
  Variables variables = {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "11"}, {"SLURM_STEP_ID", "0"}};
  EXPECT_EQ(job_in(variables)->launcher, "Slurm");
  variables.insert({{"PMI_RANK", "2"}, {"PMI_SIZE", "12"}});
  EXPECT_EQ(job_in(variables)->launcher, "PMI");
  variables.insert({{"PMIX_RANK", "3"}, {"PMIX_SIZE", "13"}});
  EXPECT_EQ(job_in(variables)->launcher, "PMIx");
  variables.insert({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "14"}});
  EXPECT_EQ(job_in(variables)->launcher, "Open MPI");
  variables.insert({{"RANK", "5"}, {"WORLD_SIZE", "15"}});
  EXPECT_EQ(job_in(variables)->launcher, "torchrun's variables");
  EXPECT_EQ(job_in(variables)->rank, 5);
  EXPECT_EQ(job_in(variables)->world, 15);
}

TEST(Job, IsFoundHereUnlessToldWhere) {
  const auto job = job_in({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  EXPECT_EQ(job->master_host, "127.0.0.1");
  EXPECT_EQ(job->master_port, 29500);
  EXPECT_EQ(job->key, "");
}

TEST(Job, OfSlurmIsFoundOnItsFirstHostUnlessToldWhere) {
  Variables variables = {{"SLURM_PROCID", "0"},
                         {"SLURM_NTASKS", "2"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_JOB_NODELIST", "n[3-4]"}};
  EXPECT_EQ(job_in(variables)->master_host, "n3");
  variables["MASTER_ADDR"] = "other";
  EXPECT_EQ(job_in(variables)->master_host, "other");
}

TEST(Job, IsNoneInABatchScriptOfSlurmItself) {
  Variables script = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}};
  EXPECT_FALSE(job_in(script));
  for (const char* special : {"4294967290", "4294967291", "4294967294", "", "batch"}) {
    script["SLURM_STEP_ID"] = special;
    EXPECT_FALSE(job_in(script)) << special;
  }
  script["SLURM_STEP_ID"] = "3";
  EXPECT_EQ(job_in(script)->world, 4);
}

TEST(Job, RefusesNumbersThatCannotBe) {
  const auto refused = [](const Variables& variables, const std::string& what) {
    expect_bad_input([&] { job_in(variables); }, {what, "expected a number from"});
  };
  for (const char* bad : {"", "x", "-1", "2", "1.5", "1x", " 1", "99999999999999999999"})
    refused({{"RANK", bad}, {"WORLD_SIZE", "2"}}, fmt::format("RANK='{}'", bad));
  for (const char* bad : {"", "0", "-2", "65537", "two"})
    refused({{"RANK", "0"}, {"WORLD_SIZE", bad}}, fmt::format("WORLD_SIZE='{}'", bad));
  for (const char* bad : {"", "0", "65536", "http"})
    refused({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", bad}},
            fmt::format("MASTER_PORT='{}'", bad));
  refused({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "-1"}}, "LOCAL_RANK='-1'");
}

TEST(FirstHost, IsTheFirstOfAnyListThatSlurmWrites) {
  EXPECT_EQ(first_host("n1"), "n1");
  EXPECT_EQ(first_host("n1,n2"), "n1");
  EXPECT_EQ(first_host("n[1-4]"), "n1");
  EXPECT_EQ(first_host("n[01-04]"), "n01");
  EXPECT_EQ(first_host("n[7]"), "n7");
  EXPECT_EQ(first_host("n[1-2,7],m3"), "n1");
  EXPECT_EQ(first_host("n[3,5-6]-ib,m[1-2]"), "n3-ib");
  EXPECT_EQ(first_host("m3,n[1-2,7]"), "m3");
  EXPECT_EQ(first_host(""), "");
}

TEST(FirstHost, IsFoundInListsWithSeveralRangesInAName) {
  EXPECT_EQ(first_host("rack[1-2]node[03-04,9],m1"), "rack1node03");
  EXPECT_EQ(first_host("rack[1-2]node[3-4]-ib"), "rack1node3-ib");
}

TEST(FirstHost, RefusesARangeWithoutEnd) {
  for (const char* bad : {"n[", "n[1", "n[1-4"})
    expect_bad_input([&] { first_host(bad); }, {bad, "n[1-4]"});
}

}  // namespace
}  // namespace lockstep::launch
