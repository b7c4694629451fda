#pragma once

// Groups over NCCL: threads play the ranks, each with a late device of its own, and the stand-in is
// libnccl.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <set>

#include "collective/communicator.h"
#include "scoped_variable.h"
#include "transport/carriers.h"
#include "transport/late_device.h"
#include "transport/nccl.h"
#include "transport/ranks.h"

namespace lockstep::transport {

using collective::Buffer;
using collective::Communicator;
using collective::CommunicatorOptions;
using nccl_stand_in::Control;
using nccl_stand_in::Fault;
using Bytes = std::vector<std::byte>;

/// The stand-in, loaded into this process and told nothing yet.
inline Control& loaded_stand_in() {
  void* const library = dlopen(NCCL_STAND_IN, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto control =
      reinterpret_cast<Control* (*)()>(dlsym(library, nccl_stand_in::kControlSymbol));
  return *control();
}

/// One rank of a group, with its device.
class NcclRank {
 public:
  NcclRank(const std::string& carrier, Rendezvous& rendezvous, Control& nccl,
           const CommunicatorOptions& options, MissingWait missing = MissingWait::none,
           double connect_seconds = 20)
      : device(rendezvous.rank()) {
    device.missing = missing;
    auto queue = std::make_unique<LateQueue>(device, nccl);
    own = queue->own_stream();
    group = std::make_unique<Communicator>(
        connect_nccl(rendezvous, connect_over(carrier, rendezvous), std::move(queue),
                     {.connect_seconds = connect_seconds}),
        options);
  }

  /// Device memory with these bytes, which the caller's stream writes late.
  Memory upload(const Bytes& bytes) {
    Memory memory = group->allocate(bytes.size(), Place::device);
    device.caller->put(
        [memory, bytes] { std::copy(bytes.begin(), bytes.end(), memory.data.get()); });
    return memory;
  }

  /// What the caller's stream reads there.
  Bytes download(const Memory& memory) {
    auto bytes = std::make_shared<Bytes>(memory.bytes);
    device.caller->put(
        [=] { std::copy(memory.data.get(), memory.data.get() + memory.bytes, bytes->begin()); });
    const auto end = device.caller->record();
    while (!end->passed()) std::this_thread::yield();
    return *bytes;
  }

  static Buffer buffer(const Memory& memory, Type type = Type::f32) {
    return {memory.data.get(), static_cast<int64_t>(memory.bytes / bytes_of(type)), type,
            Place::device};
  }

  LateDevice device;
  std::shared_ptr<LateStream> own;  ///< the transport's
  std::unique_ptr<Communicator> group;
};

class NcclWorlds : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(nccl.all_violations(), std::vector<std::string>()) << "of NCCL's rules";
  }

  using RankMain = std::function<void(NcclRank&)>;

  /// What each rank threw. All of them have ended before any rank leaves.
  std::vector<std::string> errors_of_group(int world, const RankMain& rank_main,
                                           const CommunicatorOptions& options = {
                                               .timeout_seconds = 20}) {
    return errors_of_ranks(world, [&](Rendezvous& rendezvous) {
      NcclRank rank(carrier, rendezvous, nccl, options, missing);
      std::exception_ptr thrown;
      try {
        rank_main(rank);
      } catch (...) {
        thrown = std::current_exception();
      }
      rendezvous.gather("");
      if (thrown) std::rethrow_exception(thrown);
    });
  }
  void in_group(int world, const RankMain& rank_main,
                const CommunicatorOptions& options = {.timeout_seconds = 20}) {
    EXPECT_EQ(errors_of_group(world, rank_main, options), no_errors(world));
  }

  std::set<int> ranks_that_called(const std::string& function) {
    std::set<int> ranks;
    for (const nccl_stand_in::Call& call : nccl.calls_of(function)) ranks.insert(call.rank);
    return ranks;
  }

  std::string carrier = "shm";
  MissingWait missing = MissingWait::none;
  ScopedVariable library{"LOCKSTEP_NCCL", NCCL_STAND_IN};
  Control& nccl = loaded_stand_in();

  void SetUp() override {
    const std::lock_guard lock(nccl.mutex);
    nccl.version = 22203;
    nccl.polls_in_progress = 3;
    nccl.fault = Fault::none;
    nccl.calls.clear();
    nccl.violations.clear();
    nccl.current_devices.clear();
  }
};

inline Bytes bytes_of_floats(const std::vector<float>& values) {
  const auto* const data = reinterpret_cast<const std::byte*>(values.data());
  return {data, data + values.size() * sizeof(float)};
}

inline std::vector<float> floats_of(const Bytes& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(values.data()));
  return values;
}

}  // namespace lockstep::transport
