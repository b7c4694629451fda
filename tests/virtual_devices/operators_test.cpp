#include <gtest/gtest.h>

#include <functional>

#include "devices.h"
#include "expect_error.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using torch::Tensor;
using torch::indexing::Slice;

struct Computation {
  const char* name;
  std::function<Tensor(const Tensor& a, const Tensor& b)> of;  ///< of float 6 x 6
};

const std::vector<Computation> kComputations = {
    {"Add", [](auto& a, auto& b) { return a + b; }},
    {"AddOneNumber", [](auto& a, auto&) { return a + 2.5; }},
    {"AddHostNumber", [](auto& a, auto&) { return a + torch::tensor(2.5F); }},
    {"Broadcast", [](auto& a, auto& b) { return a * b[0] - b.select(1, 2).unsqueeze(1); }},
    {"Divide", [](auto& a, auto& b) { return a / (b.abs() + 1); }},
    {"MatrixProduct", [](auto& a, auto& b) { return a.mm(b); }},
    {"BatchedProduct", [](auto& a, auto& b) { return a.view({2, 3, 6}).matmul(b); }},
    {"Transposed", [](auto& a, auto& b) { return a.t().matmul(b.t()).contiguous(); }},
    {"Linear", [](auto& a, auto& b) { return torch::linear(a, b, b[1]); }},
    {"Sum", [](auto& a, auto&) { return a.sum({1}) + a.mean(); }},
    {"Variance", [](auto& a, auto&) { return a.var(0); }},
    {"Maximum", [](auto& a, auto& b) { return torch::max(a, b) + std::get<0>(a.max(1)); }},
    {"ArgMax", [](auto& a, auto&) { return a.argmax(1); }},
    {"Softmax", [](auto& a, auto&) { return torch::log_softmax(a, 1); }},
    {"Gelu", [](auto& a, auto&) { return torch::gelu(a); }},
    {"Tanh", [](auto& a, auto&) { return a.tanh().sigmoid(); }},
    {"Clamp", [](auto& a, auto&) { return a.clamp(-0.5, 0.5); }},
    {"Where", [](auto& a, auto& b) { return torch::where(a > b, a, torch::zeros_like(b)); }},
    {"Masked", [](auto& a, auto& b) { return a.masked_fill(b > 0, 3.0); }},
    {"MaskedSelect", [](auto& a, auto& b) { return a.masked_select(b > 0); }},
    {"NonZero", [](auto& a, auto&) { return (a > 0).nonzero(); }},
    {"Concatenate", [](auto& a, auto& b) { return torch::cat({a, b}, 1); }},
    {"Stack", [](auto& a, auto& b) { return torch::stack({a, b}).permute({2, 0, 1}); }},
    {"Split", [](auto& a, auto&) { return a.split(2)[1] + a.chunk(3, 0)[2]; }},
    {"Index", [](auto& a, auto&) { return a.index({torch::tensor({4, 0, 2}), Slice(1, 3)}); }},
    {"IndexOnDevice",
     [](auto& a, auto&) { return a.index({torch::tensor({4, 0, 2}).to(a.device())}); }},
    {"IndexPut",
     [](auto& a, auto&) {
       Tensor c = a.clone();
       c.index_put_({torch::tensor({1, 1, 3}), Slice(2, 4)}, 7.0);
       return c;
     }},
    {"IndexSelect",
     [](auto& a, auto&) { return a.index_select(1, torch::tensor({5, 1}).to(a.device())); }},
    {"Gather",
     [](auto& a, auto&) { return a.gather(1, torch::zeros({6, 2}, torch::kLong).to(a.device())); }},
    {"Scatter",
     [](auto& a, auto& b) {
       return a.scatter_add(1, torch::ones({6, 2}, torch::kLong).to(a.device()), b);
     }},
    {"Embedding",
     [](auto& a, auto&) {
       return torch::embedding(a, torch::tensor({{0, 5}, {2, 2}}).to(a.device()));
     }},
    {"Sort", [](auto& a, auto&) { return std::get<0>(a.sort(1, true)); }},
    {"TopK", [](auto& a, auto&) { return std::get<1>(a.topk(3)); }},
    {"CumulativeSum", [](auto& a, auto&) { return a.cumsum(0); }},
    {"UpperTriangle", [](auto& a, auto&) { return a.triu(1); }},
    {"Norm", [](auto& a, auto&) { return a.norm() * torch::ones({2}).to(a.device()); }},
    {"Flip", [](auto& a, auto&) { return a.flip(0).roll(1, 1); }},
    {"Repeat", [](auto& a, auto&) { return a.repeat({2, 1}).expand({3, 12, 6}); }},
    {"Unfold", [](auto& a, auto&) { return a.unfold(0, 3, 2); }},
    {"ToDouble", [](auto& a, auto&) { return a.to(torch::kDouble).exp(); }},
    {"ToLong", [](auto& a, auto&) { return (a * 100).to(torch::kLong) % 7; }},
    {"Convolution",
     [](auto& a, auto& b) {
       return torch::conv2d(a.view({1, 1, 6, 6}), b.view({4, 1, 3, 3}), {}, 1, 1);
     }},
    {"StridedConvolution",
     [](auto& a, auto& b) {
       return torch::conv2d(a.view({2, 2, 3, 3}), b.view({9, 2, 1, 2}), {}, 2);
     }},
    {"ConvolutionOfSeries",
     [](auto& a, auto& b) {
       return torch::conv1d(a.view({2, 3, 6}), b.view({4, 3, 3}), b[0].slice(0, 0, 4));
     }},
    {"TransposedConvolution",
     [](auto& a, auto& b) {
       return torch::conv_transpose2d(a.view({2, 2, 3, 3}), b.view({2, 2, 3, 3}));
     }},
    {"MaxPool", [](auto& a, auto&) { return torch::max_pool2d(a.view({1, 1, 6, 6}), 2); }},
    {"AveragePool",
     [](auto& a, auto&) { return torch::adaptive_avg_pool2d(a.view({1, 1, 6, 6}), {2, 2}); }},
    {"Interpolate",
     [](auto& a, auto&) {
       return torch::upsample_bilinear2d(a.view({1, 1, 6, 6}), {9, 9}, false);
     }},
    {"LayerNorm", [](auto& a, auto& b) { return torch::layer_norm(a, {6}, b[0], b[1]); }},
    {"GroupNorm", [](auto& a, auto& b) { return torch::group_norm(a, 3, b[0], b[1]); }},
    {"BatchNorm",
     [](auto& a, auto& b) {
       return torch::batch_norm(a, b[0], b[1], {}, {}, true, 0.1, 1e-5, false);
     }},
    {"Pad", [](auto& a, auto&) { return torch::constant_pad_nd(a, {1, 2}); }},
    {"Einsum", [](auto& a, auto& b) { return torch::einsum("ij,kj->ik", {a, b}); }},
    {"Solve", [](auto& a, auto& b) { return torch::linalg_solve(a, b); }},
    {"CrossEntropy",
     [](auto& a, auto&) { return torch::cross_entropy_loss(a, torch::arange(6).to(a.device())); }},
    {"Dropout",
     [](auto& a, auto&) {
       torch::manual_seed(3);
       return torch::dropout(a, 0.5, true);
     }},
    {"RandomNumbers",
     [](auto& a, auto&) {
       torch::manual_seed(3);
       return torch::randn_like(a) + torch::rand({6}, a.options()) +
              torch::randperm(6, a.options());
     }},
    {"Arange",
     [](auto& a, auto&) { return torch::arange(6, a.options()) + torch::eye(6, a.options()); }},
    {"InPlace",
     [](auto& a, auto& b) {
       Tensor c = a.clone();
       c.add_(b).mul_(2).relu_();
       c.select(0, 1).zero_();
       c.t().slice(0, 2, 4).fill_(5);
       return c;
     }},
    {"Out",
     [](auto& a, auto& b) {
       Tensor c = torch::empty({0}, a.options());
       torch::mm_out(c, a, b);
       return c;
     }},
    {"Resize",
     [](auto& a, auto&) {
       Tensor c = a.clone();
       c.resize_({40}).slice(0, 36).fill_(1);
       return c;
     }},
    {"Foreach",
     [](auto& a, auto& b) {
       std::vector<Tensor> tensors = {a.clone(), b.clone()};
       torch::_foreach_mul_(tensors, 3);
       torch::_foreach_add_(tensors, {b, a});
       return tensors[0] - tensors[1];
     }},
};

class Operators : public testing::TestWithParam<Computation> {};

TEST_P(Operators, GiveTheBitsOfTheCpu) {
  torch::manual_seed(1);
  const Tensor a = torch::randn({6, 6}), b = torch::randn({6, 6});
  const Tensor expected = GetParam().of(a, b);
  const Tensor got = GetParam().of(a.to(device(1)), b.to(device(1)));
  ASSERT_EQ(got.device(), device(1));
  EXPECT_EQ(got.strides(), expected.strides());
  EXPECT_TRUE(got.cpu().equal(expected)) << got.cpu() << expected;
}

INSTANTIATE_TEST_SUITE_P(By, Operators, testing::ValuesIn(kComputations),
                         [](const auto& of) { return of.param.name; });

TEST(Tensors, TravelToADeviceAndBack) {
  const Tensor x = torch::randn({3, 4});
  const Tensor there = x.to(device(0));
  EXPECT_EQ(there.device(), device(0));
  EXPECT_TRUE(there.to(device(2)).cpu().equal(x));
  Tensor target = torch::zeros({3, 4}, torch::kDouble);
  target.copy_(there);
  EXPECT_TRUE(target.equal(x.to(torch::kDouble)));
}

TEST(Tensors, ThatAreViewsShareTheirMemory) {
  const Tensor x = torch::zeros({4, 4}, device(0));
  const Tensor row = x[1], column = x.select(1, 2), flat = x.view({16});
  row.fill_(1);
  flat.slice(0, 12).add_(5);
  EXPECT_EQ(column.cpu().sum().item<float>(), 6);
  EXPECT_TRUE(row.is_alias_of(x));
  EXPECT_TRUE(flat.is_alias_of(x));
}

TEST(Tensors, ThatAnOperatorReturnsInOnePieceOfMemoryShareIt) {
  const Tensor x = torch::randn({2, 4, 24}), bias = torch::randn({24});
  const auto expected = at::_transform_bias_rescale_qkv(x, bias, 2);
  for (int i = 0; i < 2; ++i) {  // asynchronous devices know the second call's shapes
    auto [q, k, v] = at::_transform_bias_rescale_qkv(x.to(device(0)), bias.to(device(0)), 2);
    EXPECT_TRUE(q.cpu().equal(std::get<0>(expected)));
    EXPECT_TRUE(k.cpu().equal(std::get<1>(expected)));
    EXPECT_TRUE(v.cpu().equal(std::get<2>(expected)));
    EXPECT_TRUE(q.is_alias_of(v));
    const int64_t before = memory_of(device(0)).in_use;
    q.reset();
    EXPECT_EQ(memory_of(device(0)).in_use, before);
    k.reset();
    v.reset();
    EXPECT_LE(memory_of(device(0)).in_use, before - x.numel() * 4);
  }
}

TEST(Tensors, GiveTheirNumbersToTheHost) {
  const Tensor x = torch::full({1}, 2.5F, device(1));
  EXPECT_EQ(x.item<float>(), 2.5F);
  EXPECT_TRUE((x > 2).item<bool>());
  EXPECT_NE(c10::str(x).find("2.5"), std::string::npos);
}

TEST(Tensors, OfTwoDevicesInOneOperatorAreRefusedByName) {
  const Tensor here = torch::ones({2}, device(0)), there = torch::ones({2}, device(1));
  expect_bad_input([&] { here + there; },
                   {"aten::add", "'self' is on virtual:0", "'other' is on virtual:1"});
  expect_bad_input([&] { here + torch::ones({2}); }, {"'other' is on cpu", ".to(device)"});
  expect_bad_input([&] { torch::ones({2}) + here; }, {"'self' is on cpu"});
  expect_bad_input([&] { torch::cat({here, there}); }, {"aten::cat"});
}

TEST(Tensors, OverTheHostsMemoryAreRefused) {
  std::vector<float> values(4);
  const Tensor x = at::for_blob(values.data(), {4})
                       .target_device(device(0))
                       .options(torch::TensorOptions(device(0)))
                       .make_tensor();
  expect_bad_input([&] { x + 1; }, {"virtual:0", "memory that is not the device's", ".to(device)"});
}

TEST(HostDeathTest, SaysWhyItMustNotUseADevicesAddress) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Tensor x = torch::ones({2}, device(0));
  EXPECT_DEATH(std::printf("%f\n", static_cast<double>(*x.data_ptr<float>())),
               "data_ptr.. of a tensor on a virtual device");
}

TEST(Tensors, ThatAreConjugatesOrNegativesKeepThat) {
  const auto all = [](torch::Device on) {
    const Tensor x =
        torch::view_as_complex(torch::arange(12).to(torch::kFloat).view({2, 3, 2})).to(on);
    std::vector<Tensor> results;
    for (int i = 0; i < 2; ++i)
      results = {x.conj().cpu(), x.conj().clone().cpu(), (x.conj() * x).cpu(),
                 x.conj().mm(x.t()).cpu(), torch::imag(x.conj()).clone().cpu()};
    return results;
  };
  const auto there = all(device(0)), here = all(torch::kCPU);
  for (size_t i = 0; i < here.size(); ++i) EXPECT_TRUE(there[i].equal(here[i])) << i;
}

TEST(Tensors, OfTheHostAreNotWrittenByADevice) {
  const Tensor one = torch::ones({}, device(0)), indices = torch::tensor({0, 1}).to(device(0));
  expect_bad_input([&] { torch::tensor(2.0F).add_(one); }, {"aten::add_", "cpu", "virtual:0"});
  expect_bad_input([&] { torch::zeros({5}).index({indices}); }, {"aten::index", "cpu"});
  expect_bad_input([&] { torch::zeros({5}).index_add_(0, indices, torch::ones({2}, device(0))); },
                   {"aten::index_add", "cpu"});
}

}  // namespace
}  // namespace lockstep
