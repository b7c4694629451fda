#include "device/visible.h"

#include <gtest/gtest.h>

#include "device/kinds.h"
#include "expect_error.h"

namespace lockstep {
namespace {

using Numbers = std::vector<int>;

Numbers visible(const std::string& kind, int count, std::optional<std::string> lockstep,
                std::optional<std::string> cuda = {}, const std::string& devices = "") {
  std::optional<DeviceSelection> selection;
  if (!devices.empty()) selection = parse_devices(devices);
  return visible_devices(kind, count, {std::move(lockstep), std::move(cuda)}, selection);
}

TEST(DeviceKinds, HaveNamesAndDescriptions) {
  EXPECT_EQ(device_kinds().names(), (std::vector<std::string>{"cpu", "cuda", "virtual"}));
  for (const auto& row : device_kinds()) EXPECT_FALSE(row->about.empty());
}

TEST(VisibleDevices, AreAllIfNoVariableIsSet) {
  EXPECT_EQ(visible("virtual", 3, {}), (Numbers{0, 1, 2}));
  EXPECT_EQ(visible("cuda", 0, {}), Numbers{});
}

TEST(VisibleDevices, AreThoseOfTheVariableInItsOrder) {
  EXPECT_EQ(visible("virtual", 4, "2,0"), (Numbers{2, 0}));
  EXPECT_EQ(visible("virtual", 4, " 3 , 1 "), (Numbers{3, 1}));
  EXPECT_EQ(visible("cuda", 2, "1"), (Numbers{1}));
}

TEST(VisibleDevices, AreNoneIfTheVariableIsEmpty) {
  EXPECT_EQ(visible("virtual", 4, ""), Numbers{});
  EXPECT_EQ(visible("cuda", 0, {}, ""), Numbers{});
  EXPECT_EQ(visible("cuda", 0, {}, "-1"), Numbers{});
}

TEST(VisibleDevices, AreRefusedIfTheyAreListedTwiceOrUnknownOrNoNumbers) {
  const auto refused = [](const std::string& list, const std::string& why) {
    expect_bad_input([&] { visible("virtual", 2, list); },
                     {"LOCKSTEP_VISIBLE_DEVICES=" + list, why});
  };
  refused("1,1", "device 1 is listed twice");
  refused("0,7", "virtual:7 is not available; there are virtual:0, virtual:1");
  refused("0,one", "'one' is not a device's number");
  refused("0,,1", "'' is not a device's number");
  refused("-1", "'-1' is not a device's number");
  refused("GPU-8932f937", "is not a device's number");
  expect_bad_input([] { visible("cuda", 0, "0"); }, {"there is no cuda device"});
  expect_bad_input([] { visible("cuda", 1, "3"); }, {"there is cuda:0"});
  expect_bad_input([] { visible("virtual", 64, "64"); }, {"there are virtual:0 to virtual:63"});
}

TEST(VisibleDevices, OfCudaAreNumberedByCudaItself) {
  EXPECT_EQ(visible("cuda", 2, {}, "3,1"), (Numbers{0, 1}));
  EXPECT_EQ(visible("cuda", 2, "1", "3,1"), (Numbers{1}));
  EXPECT_EQ(visible("virtual", 2, {}, "7"), (Numbers{0, 1})) << "it is about CUDA only";
}

TEST(VisibleDevices, OfCudaMayBeIdentities) {
  EXPECT_EQ(visible("cuda", 1, {}, "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"), (Numbers{0}));
  EXPECT_EQ(visible("cuda", 2, {}, "GPU-8932f937,MIG-GPU-8932f937/1/2"), (Numbers{0, 1}));
}

TEST(VisibleDevices, OfCudaAreRefusedIfCudaWouldIgnoreSomeSilently) {
  expect_bad_input([] { visible("cuda", 1, {}, "0,9"); },
                   {"CUDA_VISIBLE_DEVICES=0,9", "lists 2 devices, but CUDA finds 1"});
  expect_bad_input([] { visible("cuda", 0, {}, "0,0"); }, {"listed twice"});
  expect_bad_input([] { visible("cuda", 1, {}, "0,all"); }, {"'all' is neither"});
}

TEST(SelectedDevices, AreHowManyVirtualOnesThereAre) {
  EXPECT_EQ(visible("virtual", 64, {}, {}, "virtual:4"), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(visible("virtual", 64, "2,3", {}, "virtual:4"), (Numbers{2, 3}));
  expect_bad_input([] { visible("virtual", 64, "4", {}, "virtual:4"); },
                   {"LOCKSTEP_VISIBLE_DEVICES=4", "virtual:0, virtual:1, virtual:2, virtual:3"});
}

TEST(SelectedDevices, AreThoseThatAreListedInOrder) {
  EXPECT_EQ(visible("virtual", 64, {}, {}, "virtual:2,0"), (Numbers{2, 0}));
  EXPECT_EQ(visible("cuda", 2, {}, {}, "cuda:1"), (Numbers{1}));
  EXPECT_EQ(visible("cuda", 4, "3,1,2", {}, "cuda:2,3"), (Numbers{2, 3}));
  expect_bad_input([] { visible("cuda", 4, "3,1", {}, "cuda:0,1"); },
                   {"--devices cuda:0,1: cuda:0 is not available; there are cuda:3, cuda:1"});
}

TEST(SelectedDevices, AreOfTheRecipesKind) {
  expect_bad_input([] { visible("cpu", 1, {}, {}, "virtual:4"); },
                   {"--devices virtual:4", "device.kind is cpu", "--device virtual"});
  for (const char* wrong : {"virtual", "cpu:0", "tpu:1", "virtual:0", "virtual:65",
                            "virtual:", "virtual:1,1", "virtual:x", "cuda:-1", ":1", ""})
    expect_bad_input([&] { parse_devices(wrong); }, {std::string("--devices ") + wrong});
}

TEST(WorkersDevices, AreThoseOfTheirLocalRank) {
  EXPECT_EQ(device_of_worker("virtual", {5, 2}, 0), 5);
  EXPECT_EQ(device_of_worker("virtual", {5, 2}, 1), 2);
  expect_bad_input([] { device_of_worker("virtual", {5, 2}, 2, 3); },
                   {"3 workers are to start on this host", "there are virtual:5, virtual:2"});
  expect_bad_input([] { device_of_worker("cuda", {}, 0); },
                   {"at least 1 workers", "there is no cuda device"});
}

TEST(StagesDevices, OfOneWorkerAreAskedForByTheNumberOfStages) {
  EXPECT_EQ(device_of_stage("virtual", {5, 2}, 1, 2), 2);
  expect_bad_input([] { device_of_stage("virtual", {0}, 1, 2); },
                   {"1 worker with 2 stages", "there is virtual:0", "fewer stages"});
}

}  // namespace
}  // namespace lockstep
