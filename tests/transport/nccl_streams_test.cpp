// Which calls NCCL gets, in which streams and order; and that the waits between streams are needed.
#include "transport/nccl_worlds.h"

namespace lockstep::transport {
namespace {

using nccl_stand_in::Call;

class NcclStreams : public NcclWorlds {
 protected:
  // Starts an all-reduce while the caller's stream has not written the bucket yet, and reads the
  // result in that stream while the transport's has not begun. Whether all ranks read the sum.
  bool reads_the_sum() {
    std::atomic<int> right = 0;
    in_group(2, [&](NcclRank& rank) {
      const auto may_write = std::make_shared<LateQueuePoint>();
      const auto may_reduce = std::make_shared<LateQueuePoint>();
      rank.own->wait_for(may_reduce);
      rank.device.caller->wait_for(may_write);
      const Memory bucket = rank.upload(bytes_of_floats({1.F, 2.F}));
      const collective::Pending pending = rank.group->all_reduce_async(NcclRank::buffer(bucket));
      pending.wait();  // although neither stream can go on: the host does not wait for them
      const auto read = std::make_shared<Bytes>();
      rank.device.caller->put(
          [=] { read->assign(bucket.data.get(), bucket.data.get() + bucket.bytes); });
      const auto end = rank.device.caller->record();

      if (missing == MissingWait::of_the_transport) {  // a transport that does not wait reduces now
        may_reduce->passed_ = true;
        rank.own->settle();
        may_write->passed_ = true;
      } else {
        may_write->passed_ = true;
        rank.device.caller->settle();  // a caller that does not wait has read now
        may_reduce->passed_ = true;
      }
      while (!end->passed()) std::this_thread::yield();
      right += floats_of(*read) == std::vector<float>{2.F, 4.F} ? 1 : 0;
      rank.group->barrier();
    });
    return right == 2;
  }
};

TEST_F(NcclStreams, WaitForEachOtherWithoutTheHost) {
  EXPECT_TRUE(reads_the_sum());
}

TEST_F(NcclStreams, ReduceTooEarlyWithoutTheTransportsWait) {
  missing = MissingWait::of_the_transport;
  EXPECT_FALSE(reads_the_sum());
}

TEST_F(NcclStreams, AreReadTooEarlyWithoutTheCallersWait) {
  missing = MissingWait::of_the_caller;
  EXPECT_FALSE(reads_the_sum());
}

TEST_F(NcclStreams, ManyBucketsOneAfterAnotherAreAllReduced) {
  in_group(3, [&](NcclRank& rank) {
    std::vector<Memory> buckets;
    std::vector<collective::Pending> pending;
    for (int i = 0; i < 20; ++i) {
      buckets.push_back(rank.upload(bytes_of_floats(std::vector<float>(1000, 1.F * i))));
      pending.push_back(rank.group->all_reduce_async(NcclRank::buffer(buckets.back())));
    }
    for (size_t i = 0; i < buckets.size(); ++i) {
      pending[i].wait();
      EXPECT_EQ(floats_of(rank.download(buckets[i])),
                std::vector<float>(1000, 3.F * static_cast<float>(i)));
    }
  });
}

// A device's allocator would give what the host frees to others.
TEST_F(NcclStreams, KeepTheMemoryOfWhatWasStartedUntilTheDeviceHasDoneIt) {
  in_group(2, [&](NcclRank& rank) {
    const auto may_reduce = std::make_shared<LateQueuePoint>();
    rank.own->wait_for(may_reduce);
    auto owner = std::make_shared<const Memory>(rank.upload(bytes_of_floats({1.F})));
    const Buffer buffer = NcclRank::buffer(*owner);
    const std::weak_ptr<const Memory> kept = owner;
    rank.group->start({}, {&buffer, 1}, std::move(owner)).wait();
    EXPECT_FALSE(kept.expired());
    may_reduce->passed_ = true;
    rank.group->barrier();
    EXPECT_TRUE(kept.expired());
  });
}

TEST_F(NcclStreams, AGroupThatClosesFinishesWhatWasStarted) {
  in_group(2, [&](NcclRank& rank) {
    const Memory bucket = rank.upload(bytes_of_floats({1.F}));
    rank.group->all_reduce_async(NcclRank::buffer(bucket)).wait();
    rank.group.reset();
    EXPECT_EQ(floats_of(rank.download(bucket))[0], 2.F);
  });
  EXPECT_TRUE(nccl.calls_of("ncclCommAbort").empty());
}

// Butterfly on two ranks: each sends its bucket to the other.
TEST_F(NcclStreams, EveryCallIsMadeOnceInOrderAndInTheTransportsStream) {
  std::array<const void*, 2> streams = {};
  in_group(2, [&](NcclRank& rank) {
    streams[static_cast<size_t>(rank.group->rank())] =
        static_cast<nccl_stand_in::Stream*>(rank.own.get());
    rank.group->choose([](int64_t) { return collective::parse_algorithm("butterfly"); });
    const Memory bucket = rank.upload(Bytes(400));
    rank.group->all_reduce(NcclRank::buffer(bucket));
  });
  for (const int rank : {0, 1}) {
    std::vector<std::string> functions;
    for (const Call& call : nccl.calls) {
      if (call.rank != rank || call.function == "ncclGetUniqueId") continue;
      functions.push_back(call.function);
      const bool is_message = call.function == "ncclSend" || call.function == "ncclRecv";
      if (!is_message) continue;
      EXPECT_EQ(call.stream, streams[static_cast<size_t>(rank)]);
      EXPECT_EQ(call.count, 400U);
      EXPECT_EQ(call.peer, 1 - rank);
    }
    EXPECT_EQ(functions,
              (std::vector<std::string>{"ncclCommInitRankConfig", "ncclSend", "ncclRecv",
                                        "ncclGroupEnd", "ncclCommFinalize", "ncclCommDestroy"}));
  }
  EXPECT_EQ(nccl.calls_of("ncclGetUniqueId").size(), 1U);
}

TEST_F(NcclStreams, CallsThatAreInProgressForLongAreWaitedFor) {
  nccl.polls_in_progress = 500;
  in_group(3, [&](NcclRank& rank) {
    const Memory bucket = rank.upload(bytes_of_floats({1.F}));
    rank.group->all_reduce(NcclRank::buffer(bucket));
    EXPECT_EQ(floats_of(rank.download(bucket))[0], 3.F);
  });
}

TEST_F(NcclStreams, MessagesOfManySizesArriveWhole) {
  in_group(2, [&](NcclRank& rank) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{15}, size_t{100'000}}) {
      const Memory bucket = rank.upload(bytes_of_floats(std::vector<float>(count, 1.F)));
      rank.group->all_reduce(NcclRank::buffer(bucket));
      EXPECT_EQ(floats_of(rank.download(bucket)), std::vector<float>(count, 2.F));
    }
  });
}

}  // namespace
}  // namespace lockstep::transport
