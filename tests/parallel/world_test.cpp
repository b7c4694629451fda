#include "lockstep/world.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <vector>

#include "expect_error.h"
#include "parallel/worlds.h"

namespace lockstep {
namespace {

const std::vector<torch::ScalarType> kTypes = {
    torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16, torch::kLong,
    torch::kInt,   torch::kShort,  torch::kInt8, torch::kByte,     torch::kBool};

// 2 x 3 elements that tell the worker, in memory that is not contiguous.
torch::Tensor across(int rank, torch::ScalarType type) {
  return (torch::arange(6).view({3, 2}) + 10 * rank).to(type).t();
}

void expect_equal(const torch::Tensor& actual, const torch::Tensor& expected) {
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(torch::equal(actual, expected)) << actual << "\nexpected:\n" << expected;
}

TEST(World, SaysWhatIsWrongWithATensor) {
  as_workers(2, [](World everyone) {
    const torch::Tensor nothing;
    expect_bad_input([&] { everyone.all_reduce(nothing); }, {"undefined"});
    expect_bad_input([&] { everyone.all_reduce(torch::ones({3}, torch::kComplexFloat)); },
                     {"tensor is of ComplexFloat"});
    expect_bad_input([&] { everyone.all_reduce(torch::ones({3}, torch::kBool)); },
                     {"sum of bool: expected min (true if all are) or max (true if any is)"});
    expect_bad_input([&] { everyone.broadcast(torch::ones({1}).expand({4})); },
                     {"tensor of 4 is expanded", "pass a .clone()"});
    expect_bad_input([&] { everyone.all_reduce(torch::eye(3).to_sparse()); }, {".to_dense()"});
    expect_bad_input([&] { everyone.all_to_all(torch::ones({3, 2})); },
                     {"tensor of Float 3x2: expected one row for each of 2 workers"});
    expect_bad_input([&] { everyone.reduce_scatter(torch::ones({})); }, {"one row for each of 2"});
    expect_bad_input([&] { everyone.gather(torch::ones({1}), 2); },
                     {"root 2: no such worker; expected 0 to 1"});
    expect_bad_input([&] { everyone.send(torch::ones({1}), everyone.rank()); },
                     {"expected another worker than this one"});
    expect_bad_input([&] { everyone.receive(torch::ones({1}), -1); }, {"receive from -1"});
    // Nothing of this was told to the other worker, and all goes on.
    const torch::Tensor ones = torch::ones({3});
    everyone.all_reduce(ones);
    expect_equal(ones, torch::full({3}, 2.0F));
  });
}

TEST(World, ReducesTensorsOfAnyTypeAndStrides) {
  as_workers(3, [](World everyone) {
    for (const torch::ScalarType type : kTypes) {
      if (type != torch::kBool) {
        const torch::Tensor sum = across(everyone.rank(), type);
        everyone.all_reduce(sum);
        expect_equal(sum, across(0, type) + across(1, type) + across(2, type));
        const torch::Tensor at_root = across(everyone.rank(), type);
        everyone.reduce(at_root, 1);
        expect_equal(at_root, everyone.rank() == 1 ? sum : across(everyone.rank(), type));
      }
      const torch::Tensor largest = across(everyone.rank(), type);
      everyone.all_reduce(largest, Operation::max);
      expect_equal(largest, across(2, type));
    }
    const torch::Tensor same = torch::tensor({true, everyone.rank() == 1, false});
    const torch::Tensor any = same.clone();
    everyone.all_reduce(same, Operation::min);
    everyone.all_reduce(any, Operation::max);
    expect_equal(same, torch::tensor({true, false, false}));
    expect_equal(any, torch::tensor({true, true, false}));
  });
}

TEST(World, MovesTensorsOfAnyTypeAndStrides) {
  as_workers(3, [](World everyone) {
    const int rank = everyone.rank();
    for (const torch::ScalarType type : kTypes) {
      const torch::Tensor mine = across(rank, type);
      const torch::Tensor all = torch::stack({across(0, type), across(1, type), across(2, type)});

      const torch::Tensor copy = mine.clone();
      everyone.broadcast(copy, 2);
      expect_equal(copy, all[2]);
      expect_equal(everyone.all_gather(mine), all);

      const torch::Tensor gathered = everyone.gather(mine, 1);
      EXPECT_EQ(gathered.defined(), rank == 1);
      if (rank == 1) expect_equal(gathered, all);

      const torch::Tensor part = torch::zeros({3, 2}, type).t();
      everyone.scatter(rank == 1 ? all : torch::Tensor(), part, 1);
      expect_equal(part, mine);

      const torch::Tensor rows = torch::stack({mine, mine, all[0]});
      expect_equal(everyone.all_to_all(rows),
                   rank == 2 ? torch::stack({all[0], all[0], all[0]}) : all);
      expect_equal(mine, across(rank, type));
    }
  });
}

TEST(World, SumsRowsAndKeepsItsOwn) {
  as_workers(3, [](World everyone) {
    const torch::Tensor rows = torch::arange(6, torch::kFloat).view({3, 2}) * (everyone.rank() + 1);
    const torch::Tensor before = rows.clone();
    expect_equal(everyone.reduce_scatter(rows),
                 torch::arange(6, torch::kFloat).view({3, 2})[everyone.rank()] * 6);
    expect_equal(rows, before);
  });
}

TEST(World, GathersTensorsOfDifferentSizes) {
  as_workers(3, [](World everyone) {
    const int64_t rank = everyone.rank();
    const std::vector<torch::Tensor> expected = {torch::zeros({0, 4}), torch::ones({3}),
                                                 torch::full({}, 2.0F)};
    const std::vector<torch::Tensor> all =
        everyone.all_gather_uneven(expected[static_cast<size_t>(rank)]);
    ASSERT_EQ(all.size(), 3U);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(all[i].sizes(), expected[i].sizes());
      expect_equal(all[i], expected[i]);
    }
  });
}

TEST(World, SendsAndReceives) {
  as_workers(2, [](World everyone) {
    const int rank = everyone.rank();
    for (const torch::ScalarType type : kTypes) {
      const torch::Tensor mine = across(rank, type);
      if (rank == 0) everyone.send(mine, 1);
      if (rank == 1) everyone.receive(mine, 0);
      expect_equal(mine, across(0, type));
    }
    // In both directions, with more elements than a transport buffers.
    const torch::Tensor large = torch::full({1'000'000}, static_cast<float>(rank));
    everyone.exchange(large, 1 - rank, large, 1 - rank);
    expect_equal(large, torch::full({1'000'000}, static_cast<float>(1 - rank)));
  });
  as_workers(1, [](World alone) {
    const torch::Tensor copy = torch::zeros({4});
    alone.exchange(torch::ones({4}), 0, copy, 0);
    expect_equal(copy, torch::ones({4}));
  });
}

TEST(World, NamesBothSidesOfAMessageThatDiffer) {
  const auto errors = errors_of_workers(2, [](World everyone) {
    if (everyone.rank() == 0) everyone.send(torch::ones({10}), 1);
    if (everyone.rank() == 1) everyone.receive(torch::ones({10}, torch::kLong), 0);
    everyone.barrier();
  });
  EXPECT_NE(errors[1].find("of 10 i64 from 0 to 1"), std::string::npos) << errors[1];
  EXPECT_NE(errors[1].find("of 10 f32 from 0 to 1"), std::string::npos) << errors[1];
}

TEST(World, RunsCollectivesInTheBackground) {
  as_workers(2, [](World everyone) {
    const int rank = everyone.rank();
    const torch::Tensor sum = across(rank, torch::kFloat);
    const torch::Tensor ours = torch::full({4}, static_cast<float>(rank));
    const torch::Tensor theirs = torch::empty({4});
    const torch::Tensor part = torch::empty({2});
    std::vector<Started> started;
    started.push_back(everyone.all_reduce_async(sum));
    started.push_back(everyone.all_gather_async(ours));
    started.push_back(everyone.exchange_async(ours, 1 - rank, theirs, 1 - rank));
    started.push_back(everyone.reduce_scatter_async(torch::ones({2, 3})));
    started.push_back(everyone.all_to_all_async(torch::full({2, 1}, rank)));
    started.push_back(everyone.scatter_async(torch::ones({2, 2}), part, 0));
    started.push_back(everyone.gather_async(ours, 0));
    started.push_back(everyone.broadcast_async(ours, 1));
    started.push_back(everyone.reduce_async(ours, 0));
    started.push_back(rank == 0 ? everyone.send_async(torch::ones({5}), 1)
                                : everyone.receive_async(torch::zeros({5}), 0));
    std::vector<torch::Tensor> results;
    for (Started& each : started) results.push_back(each.wait());
    EXPECT_TRUE(started.back().done());
    expect_equal(sum, across(0, torch::kFloat) + across(1, torch::kFloat));
    expect_equal(results[0], sum);
    expect_equal(results[1], torch::tensor({0.0F, 1.0F}).unsqueeze(1).expand({2, 4}));
    expect_equal(theirs, torch::full({4}, static_cast<float>(1 - rank)));
    expect_equal(results[3], torch::full({3}, 2.0F));
    expect_equal(results[4], torch::tensor({{0}, {1}}));
    expect_equal(part, torch::ones({2}));
    EXPECT_EQ(results[6].defined(), rank == 0);
    expect_equal(ours, torch::full({4}, rank == 0 ? 2.0F : 1.0F));
    expect_equal(results[9], torch::ones({5}));
  });
}

TEST(World, KeepsTensorsOfAStartedCollectiveThatNobodyWaitsFor) {
  as_workers(2, [](World everyone) {
    for (int i = 0; i < 20; ++i) everyone.all_reduce_async(torch::ones({100'000}));
    everyone.barrier();
  });
}

TEST(World, LetsAutogradNoticeAChange) {
  as_workers(2, [](World everyone) {
    const torch::Tensor weight = torch::ones({3}, torch::requires_grad());
    const torch::Tensor input = torch::ones({3});
    const torch::Tensor product = (weight * input).sum();
    everyone.all_reduce(input);
    EXPECT_THROW(product.backward(), c10::Error);
  });
}

TEST(World, SendsTexts) {
  as_workers(3, [](World everyone) {
    const std::string mine(static_cast<size_t>(everyone.rank()) * 100, 'x');
    EXPECT_EQ(everyone.broadcast(mine, 2), std::string(200, 'x'));
    EXPECT_EQ(everyone.broadcast(mine, 0), "");
    EXPECT_EQ(everyone.all_gather(mine)[1], std::string(100, 'x'));
  });
}

TEST(World, SplitsIntoWorldsByColor) {
  as_workers(5, [](World everyone) {
    const int rank = everyone.rank();
    std::optional<World> part = everyone.split(rank == 4 ? -1 : rank % 2, -rank);
    ASSERT_EQ(part.has_value(), rank != 4);
    if (!part) return;
    EXPECT_EQ(part->size(), 2);
    EXPECT_EQ(part->rank(), rank < 2 ? 1 : 0);
    const torch::Tensor sum = torch::full({3}, static_cast<float>(rank));
    part->all_reduce(sum);
    expect_equal(sum, torch::full({3}, rank % 2 == 0 ? 2.0F : 4.0F));
  });
}

TEST(World, CallsOptionsAsTheCallerHasGivenThem) {
  expect_bad_input([] { init({.transport = "shm", .algorithm = "engine"}); },
                   {"WorldOptions::algorithm = engine: transport shm has no all-reduce"});
  expect_bad_input([] { init({.transport = "smh"}); }, {"WorldOptions::transport = 'smh'"});
  const auto with_flag = [](std::string flag) {
    std::string program = "program";
    std::vector<char*> words = {program.data(), flag.data(), nullptr};
    int count = 2;
    init(count, words.data(), {.transport = "shm"});
  };
  expect_bad_input([&] { with_flag("--lockstep-algorithm=engine"); },
                   {"--lockstep-algorithm=engine: transport shm has no all-reduce"});
  expect_bad_input([&] { with_flag("--lockstep-algorithm=rign"); },
                   {"--lockstep-algorithm='rign': no such algorithm", "ring"});
  expect_bad_input([&] { with_flag("--lockstep-transport=smh"); },
                   {"--lockstep-transport='smh': no such transport"});
}

TEST(World, CountsTheBytesItSends) {
  as_workers(2, [](World everyone) {
    const int64_t before = everyone.bytes_sent();
    torch::Tensor values = torch::ones({1000});
    everyone.all_reduce(values);
    const int64_t after = everyone.bytes_sent();
    EXPECT_GE(after - before, 2000);
    World other = everyone.duplicate();
    const int64_t connected = everyone.bytes_sent();
    other.all_reduce(values);
    EXPECT_EQ(everyone.bytes_sent() - connected, after - before);
  });
}

TEST(World, SaysWhyItGaveUp) {
  as_workers(2, [](World everyone) {
    everyone.abort("the disk is full");
    const std::string message = message_of<Error>([&] { everyone.barrier(); });
    EXPECT_NE(message.find("the disk is full"), std::string::npos) << message;
  });
}

}  // namespace
}  // namespace lockstep
