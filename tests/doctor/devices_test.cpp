#include "doctor/devices.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "doctor/findings.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace lockstep::doctor {
namespace {

DeviceFacts machine_with(int gpus, int seen) {
  return {.gpus = gpus, .seen = seen, .libtorch_has_cuda = true, .libtorch_build = "LibTorch 2.6"};
}

TEST(Devices, AreCountedOnThePciBus) {
  const TemporaryFolder root;
  for (int i = 0; i < 32; ++i) {
    const std::string device = fmt::format("sys/bus/pci/devices/0000:{:02x}:00.0/", i);
    root.write(device + "vendor", "0x10de\n");
    root.write(device + "class", i % 2 == 0 ? "0x030200\n" : "0x030000\n");
  }
  root.write("sys/bus/pci/devices/0000:40:00.0/vendor", "0x10de\n");
  root.write("sys/bus/pci/devices/0000:40:00.0/class", "0x068000\n");  // an NVSwitch
  root.write("sys/bus/pci/devices/0000:41:00.0/vendor", "0x1a03\n");
  root.write("sys/bus/pci/devices/0000:41:00.0/class", "0x030000\n");  // a server's display
  EXPECT_EQ(gpus_plugged_in(root.path()), 32);
  EXPECT_EQ(gpus_plugged_in("/nowhere"), 0);
}

TEST(Devices, ThatAreAllSeenOrNotThereAreNoFinding) {
  EXPECT_TRUE(judge(machine_with(8, 8)).empty());
  EXPECT_TRUE(judge(DeviceFacts{.seen = 0, .libtorch_build = "LibTorch 1.13"}).empty());
  DeviceFacts without = machine_with(0, 0);
  without.visible = {{"CUDA_VISIBLE_DEVICES", "", 0}};
  EXPECT_TRUE(judge(without).empty());
}

TEST(Devices, HiddenByAVariableNameItAndItsValue) {
  DeviceFacts facts = machine_with(32, 1);
  facts.visible = {{"CUDA_VISIBLE_DEVICES", "3", 1}};
  expect_one(
      judge(facts), "devices.hidden", Severity::advice,
      {"CUDA_VISIBLE_DEVICES=3", "32 are plugged in", "1 is seen", "unset CUDA_VISIBLE_DEVICES"});
  facts.seen = 0;
  facts.visible = {{"CUDA_VISIBLE_DEVICES", "", 0}};
  expect_one(judge(facts), "devices.hidden", Severity::problem,
             {"CUDA_VISIBLE_DEVICES=''", "0 are seen"});
}

TEST(Devices, HiddenByLockstepsVariableAreSeenByLibTorchAndByNoWorker) {
  DeviceFacts facts = machine_with(4, 4);
  facts.visible = {{"LOCKSTEP_VISIBLE_DEVICES", "", 0}};
  expect_one(judge(facts), "devices.hidden", Severity::problem,
             {"LOCKSTEP_VISIBLE_DEVICES=''", "4 are plugged in", "0 are seen"});
  facts.visible = {{"LOCKSTEP_VISIBLE_DEVICES", "2,0", 2}};
  expect_one(judge(facts), "devices.hidden", Severity::advice, {"2 are seen"});
  facts = machine_with(4, 2);
  facts.visible = {{"LOCKSTEP_VISIBLE_DEVICES", "1,0", 2}, {"CUDA_VISIBLE_DEVICES", "3,1", 2}};
  expect_one(judge(facts), "devices.hidden", Severity::advice, {"CUDA_VISIBLE_DEVICES=3,1"});
}

TEST(Devices, ThatAnyKindOfRunWouldRefuseAreFound) {
  EXPECT_EQ(refusal_of({}, 4), "");
  EXPECT_EQ(refusal_of({.lockstep = "3,1", .cuda = "3,2,1,0"}, 4), "");
  EXPECT_TRUE(has(refusal_of({.lockstep = "1,1", .cuda = {}}, {}), "listed twice"));
  EXPECT_TRUE(has(refusal_of({.lockstep = {}, .cuda = "0,0"}, 1), "CUDA_VISIBLE_DEVICES=0,0"));
  EXPECT_TRUE(has(refusal_of({.lockstep = "7", .cuda = {}}, 4), "cuda:7 is not available"));
  EXPECT_EQ(refusal_of({.lockstep = "7", .cuda = "0,0"}, {}), "") << "nothing can use CUDA";
}

TEST(Devices, ThatARunWouldRefuseSayWhy) {
  expect_one(judge({.refused = "LOCKSTEP_VISIBLE_DEVICES=1,1: 1 is listed twice"}),
             "devices.refused", Severity::problem, {"listed twice", "each device once"});
}

TEST(Devices, ThatLibTorchCannotUseSayHowItWasBuilt) {
  DeviceFacts facts = machine_with(2, 0);
  facts.libtorch_has_cuda = false;
  facts.libtorch_build = "LibTorch 1.13.0, USE_CUDA=OFF";
  expect_one(judge(facts), "devices.libtorch_without_cuda", Severity::problem,
             {"2 GPUs are plugged in", "LibTorch 1.13.0, USE_CUDA=OFF", "libtorch-cuda-dev"});
}

TEST(Devices, ThatNothingHidesAndLibTorchDoesNotSeeAreTheDriversMatter) {
  expect_one(judge(machine_with(8, 7)), "devices.not_seen", Severity::problem,
             {"7 of 8 GPUs", "nvidia-smi"});
}

}  // namespace
}  // namespace lockstep::doctor
