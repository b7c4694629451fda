// That the stand-in for libnccl finds calls that break NCCL's rules: other tests rely on it.
#include "transport/nccl_worlds.h"

namespace lockstep::transport {
namespace {

using nccl::Comm;
using nccl::DataType;
using nccl::Result;

class NcclStandIn : public NcclWorlds {
 protected:
  void SetUp() override {
    NcclWorlds::SetUp();
    LateQueue(LateDevice(0), nccl).make_current();
    nccl::UniqueId id;
    nccl::Config config;
    EXPECT_EQ(api.get_unique_id(&id), Result::success);
    EXPECT_EQ(api.comm_init_rank_config(&comm, 1, id, 0, &config), Result::in_progress);
    Result state = Result::in_progress;
    while (state == Result::in_progress) api.comm_get_async_error(comm, &state);
    EXPECT_EQ(state, Result::success);
  }
  void TearDown() override {
    if (comm != nullptr) api.comm_abort(comm);
  }

  void expect_violation(Result result, const std::string& what) {
    EXPECT_NE(result, Result::success);
    const auto found = nccl.all_violations();
    ASSERT_FALSE(found.empty());
    EXPECT_NE(found.back().find(what), std::string::npos) << found.back();
  }

  Result send(std::byte* data, int peer, void* to) {
    const Result sent = api.send(data, 8, DataType::u8, peer, comm, to);
    return sent;
  }

  const std::shared_ptr<const nccl::Library> loaded = nccl::Library::load();
  const nccl::Api& api = loaded->api();
  LateDevice device{0};
  Memory memory = LateMemory::allocate(device.memory, 8);
  nccl_stand_in::Stream* stream = device.caller.get();
  Comm* comm = nullptr;
};

TEST_F(NcclStandIn, FindsWrongArguments) {
  const auto reduce = [&](void* data, void* in) {
    return api.all_reduce(data, data, 2, DataType::f32, nccl::Reduction::sum, comm, in);
  };
  expect_violation(reduce(memory.data.get(), nullptr), "no stream");
  expect_violation(reduce(nullptr, stream), "is null");
  std::array<float, 2> on_host = {};
  expect_violation(reduce(on_host.data(), stream), "not in the device's memory");
  const LateDevice other(1);
  expect_violation(
      reduce(memory.data.get(), static_cast<nccl_stand_in::Stream*>(other.caller.get())),
      "another device's");
  expect_violation(send(memory.data.get(), 0, stream), "no such peer");
  expect_violation(send(memory.data.get(), 5, stream), "no such peer");
  nccl::Config blocking;
  blocking.blocking = 1;
  Comm* made = nullptr;
  expect_violation(api.comm_init_rank_config(&made, 1, {}, 0, &blocking), "would block");
}

TEST_F(NcclStandIn, FindsCallsInTheWrongOrder) {
  expect_violation(api.group_end(), "no group was started");
  const auto reduce = [&] {
    return api.all_reduce(memory.data.get(), memory.data.get(), 2, DataType::f32,
                          nccl::Reduction::sum, comm, stream);
  };
  EXPECT_EQ(reduce(), Result::in_progress);
  expect_violation(reduce(), "while another is in progress");
  Comm* const aborted = std::exchange(comm, nullptr);
  EXPECT_EQ(api.comm_abort(aborted), Result::success);
  expect_violation(api.comm_abort(aborted), "no such communicator");
  Result state = Result::success;
  expect_violation(api.comm_get_async_error(aborted, &state), "no such communicator");
}

}  // namespace
}  // namespace lockstep::transport
