#include "doctor/cgroup.h"

#include <gtest/gtest.h>

#include "temporary_folder.h"

namespace lockstep::doctor {
namespace {

constexpr const char* kVersion2 = "30 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
constexpr const char* kVersion1 =
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

TEST(Cgroup, HasNoLimitsWhereThereIsNone) {
  const TemporaryFolder root;
  EXPECT_FALSE(read_cgroup(root.path()).cores);
  EXPECT_FALSE(read_cgroup(root.path()).memory);
}

TEST(Cgroup, OfVersion2HasTheSmallestLimitOfAllGroupsThatContainTheProcess) {
  const TemporaryFolder root;
  root.write("proc/self/mountinfo", kVersion2);
  root.write("proc/self/cgroup", "0::/slice/job/step\n");
  root.write("sys/fs/cgroup/slice/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/slice/job/cpu.max", "150000 100000\n");
  root.write("sys/fs/cgroup/slice/job/step/cpu.max", "400000 100000\n");
  root.write("sys/fs/cgroup/slice/job/memory.max", "1073741824\n");
  root.write("sys/fs/cgroup/slice/job/memory.current", "4096\n");
  root.write("sys/fs/cgroup/slice/job/step/memory.max", "max\n");
  root.write("sys/fs/cgroup/other/cpu.max", "1000 100000\n");
  const CgroupLimits limits = read_cgroup(root.path());
  EXPECT_EQ(limits.cores, 1.5);
  EXPECT_EQ(limits.cores_file, "/sys/fs/cgroup/slice/job/cpu.max");
  EXPECT_EQ(limits.memory, 1073741824);
  EXPECT_EQ(limits.memory_file, "/sys/fs/cgroup/slice/job/memory.max");
  EXPECT_EQ(limits.memory_used, 4096);
}

TEST(Cgroup, OfVersion1HasAHierarchyForEachController) {
  const TemporaryFolder root;
  root.write("proc/self/mountinfo", kVersion1);
  root.write("proc/self/cgroup", "2:memory:/big\n1:cpu,cpuacct:/small\n0::/\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/small/cpu.cfs_quota_us", "50000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/small/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("sys/fs/cgroup/memory/big/memory.limit_in_bytes", "2000000\n");
  root.write("sys/fs/cgroup/memory/big/memory.usage_in_bytes", "1000000\n");
  const CgroupLimits limits = read_cgroup(root.path());
  EXPECT_EQ(limits.cores, 0.5);
  EXPECT_EQ(limits.cores_file, "/sys/fs/cgroup/cpu,cpuacct/small/cpu.cfs_quota_us");
  EXPECT_EQ(limits.memory, 2000000);
  EXPECT_EQ(limits.memory_used, 1000000);
}

TEST(Cgroup, OfAContainerIsFoundWhereItsMountBegins) {
  const TemporaryFolder root;
  root.write("proc/self/mountinfo",
             "30 23 0:28 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  root.write("proc/self/cgroup", "0::/docker/abc\n");
  root.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(read_cgroup(root.path()).cores, 2.0);
  // Without a namespace of its own the process may see a path that its mount does not show.
  root.write("proc/self/cgroup", "0::/elsewhere\n");
  EXPECT_EQ(read_cgroup(root.path()).cores, 2.0);
}

}  // namespace
}  // namespace lockstep::doctor
