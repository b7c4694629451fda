#include "kernels/convolution.h"

#include <gtest/gtest.h>
#include <omp.h>

#include "convolution_by_definition.h"
#include "kernels/cpu.h"
#include "kernels/lanes.h"
#include "kernels/packed_convolution.h"
#include "kernels/products.h"
#include "kernels/thin_convolution.h"
#include "kernels/winograd.h"
#include "numbers.h"

namespace lockstep::kernels {
namespace {

ConvShape shape_of(int64_t samples, int64_t in, int64_t side, int64_t out, int64_t kernel = 3,
                   int64_t stride = 1, int64_t padding = 1) {
  return {samples, in, side, side + 1, out, kernel, stride, padding};
}

template <typename T>
struct Results {
  std::vector<T> y, dx, dw;
};

template <typename T>
struct Inputs {
  explicit Inputs(const ConvShape& s)
      : x(random_numbers<T>(x_count(s), 1)),
        w(random_numbers<T>(weight_count(s), 2)),
        dy(random_numbers<T>(y_count(s), 3)) {}
  std::vector<T> x, w, dy;
};

template <typename T>
Results<T> by_definition(const ConvShape& s, const Inputs<T>& in) {
  std::vector<double> y(y_count(s)), dx(x_count(s)), dw(weight_count(s));
  for_products(s, [&](size_t at_y, size_t at_x, size_t at_w) {
    y[at_y] += static_cast<double>(in.x[at_x]) * in.w[at_w];
    dx[at_x] += static_cast<double>(in.dy[at_y]) * in.w[at_w];
    dw[at_w] += static_cast<double>(in.dy[at_y]) * in.x[at_x];
  });
  return {{y.begin(), y.end()}, {dx.begin(), dx.end()}, {dw.begin(), dw.end()}};
}

template <typename Kind = Convolution>
Results<float> by_convolution(const ConvShape& s, const Inputs<float>& in) {
  constexpr std::byte kGarbage{0xFF};  // four of them are no number
  Kind convolution(s, ImageLayout::blocked);
  std::vector<std::byte> scratch(static_cast<size_t>(convolution.scratch_bytes()) + 64, kGarbage);
  Results<float> of = {std::vector<float>(y_count(s), NAN), std::vector<float>(x_count(s), NAN),
                       std::vector<float>(weight_count(s), NAN)};
  convolution.forward(in.w.data(), in.x.data(), of.y.data(), scratch.data());
  convolution.input_gradient(in.w.data(), in.dy.data(), of.dx.data(), scratch.data());
  convolution.weight_gradient(in.x.data(), in.dy.data(), of.dw.data(), scratch.data());
  return of;
}

// The packed one for any shape, whatever the rule says.
class Packed {
 public:
  Packed(const ConvShape& shape, ImageLayout) : convolution_(shape) {}

  int64_t scratch_bytes() const {
    return convolution_.scratch_count() * static_cast<int64_t>(sizeof(float));
  }
  void forward(const float* w, const float* x, float* y, std::byte* scratch) const {
    const std::vector<float> of = filters(Weights::plain, w);
    convolution_.forward(x, of.empty() ? w : of.data(), y, floats(scratch));
  }
  void input_gradient(const float* w, const float* dy, float* dx, std::byte* scratch) const {
    const std::vector<float> of = filters(Weights::transposed, w);
    convolution_.input_gradient(dy, of.empty() ? w : of.data(), dx, floats(scratch));
  }
  void weight_gradient(const float* x, const float* dy, float* dw, std::byte* scratch) const {
    convolution_.weight_gradient(x, dy, dw, floats(scratch));
  }

 private:
  static float* floats(std::byte* scratch) { return reinterpret_cast<float*>(scratch); }
  std::vector<float> filters(Weights kind, const float* w) const {
    if (!convolution_.holds_filters(kind)) return {};
    std::vector<float> of(static_cast<size_t>(convolution_.filter_count(kind)));
    convolution_.make_filters(kind, w, of.data());
    return of;
  }

  PackedConvolution convolution_;
};

void expect_close(const Results<float>& a, const Results<float>& b, double tolerance) {
  EXPECT_LT(difference(a.y, b.y), tolerance);
  EXPECT_LT(difference(a.dx, b.dx), tolerance);
  EXPECT_LT(difference(a.dw, b.dw), tolerance);
}

class Convolutions : public testing::TestWithParam<ConvShape> {
  void SetUp() override { ASSERT_TRUE(supported()) << "tests need a processor with AVX2 and FMA"; }
};

TEST_P(Convolutions, GiveWhatTheDefinitionGives) {
  const Inputs<float> in(GetParam());
  expect_close(by_convolution(GetParam(), in), by_definition(GetParam(), in), 3e-5);
}

TEST_P(Convolutions, GiveTheSameBitsAgain) {
  const Inputs<float> in(GetParam());
  const Results<float> once = by_convolution(GetParam(), in),
                       again = by_convolution(GetParam(), in);
  EXPECT_EQ(once.y, again.y);
  EXPECT_EQ(once.dx, again.dx);
  EXPECT_EQ(once.dw, again.dw);
}

#ifndef __SANITIZE_THREAD__  // it does not know how OpenMP's threads wait for each other
TEST_P(Convolutions, GiveTheSameBitsWithTwoThreads) {
  const Inputs<float> in(GetParam());
  const Results<float> alone = by_convolution(GetParam(), in);
  omp_set_num_threads(2);
  const Results<float> together = by_convolution(GetParam(), in);
  omp_set_num_threads(1);
  EXPECT_EQ(alone.y, together.y);
  EXPECT_EQ(alone.dx, together.dx);
  if (method_for(GetParam(), ImageLayout::blocked) != Method::direct) {
    EXPECT_EQ(alone.dw, together.dw);  // oneDNN's sums depend on the number of threads
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(
    OfShape, Convolutions,
    testing::Values(shape_of(3, 16, 7, 16),            // tiles that are not full
                    shape_of(3, 16, 8, 16),            // whole tiles
                    shape_of(3, 16, 8, 24),            // half a pair of blocks
                    shape_of(2, 24, 13, 16, 3, 1, 0),  // no padding
                    shape_of(3, 16, 6, 16, 3, 1, 2),   // more padding than LibTorch's models have
                    shape_of(5, 16, 17, 32),           // several batches of tiles
                    shape_of(6, 8, 4, 8), shape_of(3, 8, 9, 24),  // direct ones from here
                    shape_of(2, 24, 13, 8, 3, 1, 0), shape_of(2, 16, 9, 32, 3, 2),
                    shape_of(2, 16, 8, 24, 1, 2, 0), shape_of(1, 8, 7, 8, 5, 1, 2),
                    shape_of(1, 8, 1, 8),  // packed ones from here
                    shape_of(2, 8, 2, 8), shape_of(13, 24, 1, 40), shape_of(7, 32, 2, 24, 3, 2),
                    shape_of(5, 16, 3, 8, 5, 1, 2), shape_of(8, 8, 4, 16, 7, 2, 3),
                    shape_of(3, 16, 5, 16, 1, 1, 1), shape_of(1, 32, 60, 96, 1, 2, 0)),
    [](const auto& of) {
      const ConvShape& s = of.param;
      return std::to_string(of.index) + to_string(method_for(s, ImageLayout::blocked)) +
             std::to_string(s.in_channels) + "to" + std::to_string(s.out_channels) + "side" +
             std::to_string(s.in_height);
    });

// One weight's gradient, over a plain input.
double thin_weight_by_definition(const ConvShape& s, const std::vector<double>& x,
                                 const std::vector<double>& dy, int64_t weight) {
  const int64_t column = weight % s.kernel, row = weight / s.kernel % s.kernel;
  const int64_t channel = weight / (s.kernel * s.kernel) % s.in_channels;
  const int64_t out = weight / (s.kernel * s.kernel * s.in_channels);
  double sum = 0;
  for (int64_t n = 0; n < s.samples; ++n)
    for (int64_t i = 0; i < s.out_height() * s.out_width(); ++i) {
      const int64_t from_y = i / s.out_width() * s.stride + row - s.padding;
      const int64_t from_x = i % s.out_width() * s.stride + column - s.padding;
      if (from_y < 0 || from_y >= s.in_height || from_x < 0 || from_x >= s.in_width) continue;
      const int64_t from =
          ((n * s.in_channels + channel) * s.in_height + from_y) * s.in_width + from_x;
      sum += x[static_cast<size_t>(from)] *
             dy[at(n, s.out_channels, out, s.out_height(), s.out_width(), 0, i)];
    }
  return sum;
}

class ThinConvolutions : public testing::TestWithParam<ConvShape> {};

TEST_P(ThinConvolutions, OfAPlainInputGiveABlockedResult) {
  const ConvShape s = GetParam();
  const auto area = static_cast<size_t>(s.kernel * s.kernel);
  const auto is_there = [&](size_t weight) {
    return weight / area % 8 < static_cast<size_t>(s.in_channels);
  };
  // By the definition channels come in eights: five of them are zero.
  ConvShape wide = s;
  wide.in_channels = 8;
  Inputs<float> in(wide);
  std::vector<float> x, w;
  for (int64_t n = 0; n < s.samples; ++n)
    for (int64_t c = 0; c < wide.in_channels; ++c)
      for (int64_t i = 0; i < s.in_height * s.in_width; ++i) {
        float& value = in.x[at(n, 8, c, s.in_height, s.in_width, 0, i)];
        c < s.in_channels ? x.push_back(value) : static_cast<void>(value = 0);
      }
  for (size_t i = 0; i < in.w.size(); ++i)
    if (is_there(i)) w.push_back(in.w[i]);
  const Results<float> expected = by_definition(wide, in);

  Convolution convolution(s, ImageLayout::plain);
  std::vector<std::byte> scratch(static_cast<size_t>(convolution.scratch_bytes()) + 64);
  std::vector<float> y(y_count(s)), dw(weight_count(s));
  convolution.forward(w.data(), x.data(), y.data(), scratch.data());
  convolution.weight_gradient(x.data(), in.dy.data(), dw.data(), scratch.data());
  EXPECT_LT(difference(y, expected.y), 1e-5);
  std::vector<float> expected_dw;
  for (size_t i = 0; i < in.w.size(); ++i)
    if (is_there(i)) expected_dw.push_back(expected.dw[i]);
  EXPECT_LT(difference(dw, expected_dw), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Of, ThinConvolutions,
                         testing::Values(shape_of(2, 3, 9, 16), shape_of(3, 1, 12, 32, 3, 1, 0),
                                         shape_of(2, 3, 13, 8, 7, 2, 3),
                                         shape_of(2, 3, 4, 16, 5, 1, 2),  // smaller than filters
                                         shape_of(3, 1, 9, 24, 5, 2, 2),
                                         shape_of(1, 2, 5, 8, 1, 1, 0),
                                         shape_of(9, 7, 40, 24),  // several batches of samples
                                         shape_of(2, 6, 11, 16, 2, 3, 0)),
                         [](const auto& of) {
                           return std::to_string(of.param.in_channels) + "Channels" +
                                  std::to_string(of.param.kernel) + "Wide" +
                                  std::to_string(of.param.samples) + "Samples";
                         });

TEST(ThinWeightGradient, OfAnyShapeIsTheSumOverPixels) {
  for (int64_t kernel = 1; kernel <= kMostStripWidth; ++kernel)
    for (int64_t channels = 1; channels < 8; ++channels) {
      const ConvShape s = shape_of(2, channels, 9, 24, kernel, 1 + channels % 3, kernel / 2);
      const std::vector<double> x = random_numbers<double>(x_count(s), 1),
                                dy = random_numbers<double>(y_count(s), 2);
      std::vector<double> dw(weight_count(s)), scratch(static_cast<size_t>(thin_scratch_count(s)));
      thin_weight_gradient(s, x.data(), dy.data(), dw.data(), scratch.data());
      for (size_t i = 0; i < dw.size(); ++i)
        ASSERT_NEAR(dw[i], thin_weight_by_definition(s, x, dy, static_cast<int64_t>(i)), 1e-12)
            << kernel << " wide, " << channels << " channels, weight " << i;
    }
}

// Where filters are too many to be kept; for one batch of tiles and for several.
TEST(Convolution, OfManyChannelsGivesWhatTheDirectOneGives) {
  for (const ConvShape& s : {shape_of(6, 136, 4, 128), shape_of(50, 136, 7, 128)}) {
    ASSERT_EQ(method_for(s, ImageLayout::blocked), Method::winograd);
    ASSERT_FALSE(winograd_holds_filters(s));
    const Inputs<float> in(s);
    expect_close(by_convolution(s, in), by_convolution<DirectConvolution>(s, in), 3e-5);
  }
}

TEST(Convolution, UsesNewWeightsOnceItIsToldThatTheyChanged) {
  for (const ConvShape& s : {shape_of(3, 16, 8, 16), shape_of(9, 16, 8, 16, 3, 2)}) {
    Inputs<float> in(s);
    Convolution convolution(s, ImageLayout::blocked);
    std::vector<std::byte> scratch(static_cast<size_t>(convolution.scratch_bytes()) + 64);
    std::vector<float> y(y_count(s)), dx(x_count(s));
    for (int time = 0; time < 2; ++time) {
      const Results<float> expected = by_definition(s, in);
      convolution.forward(in.w.data(), in.x.data(), y.data(), scratch.data());
      convolution.input_gradient(in.w.data(), in.dy.data(), dx.data(), scratch.data());
      EXPECT_LT(difference(y, expected.y), 1e-5);
      EXPECT_LT(difference(dx, expected.dx), 1e-5);
      in.w = random_numbers<float>(in.w.size(), 9);
      convolution.weights_changed();
    }
  }
}

TEST(Convolution, IsServedByARuleOnItsShape) {
  EXPECT_EQ(method_for(shape_of(3, 16, 8, 16), ImageLayout::blocked), Method::winograd);
  EXPECT_EQ(method_for(shape_of(64, 512, 4, 512), ImageLayout::blocked), Method::winograd);
  const Method others = has_avx512() ? Method::packed : Method::direct;
  EXPECT_EQ(method_for(shape_of(1, 16, 8, 16), ImageLayout::blocked), others);   // 6 tiles
  EXPECT_EQ(method_for(shape_of(64, 16, 5, 16), ImageLayout::blocked), others);  // mostly empty
  EXPECT_EQ(method_for(shape_of(64, 16, 16, 8), ImageLayout::blocked), others);  // half a pair
  EXPECT_EQ(method_for(shape_of(1, 16, 2, 16), ImageLayout::blocked), Method::packed);
  EXPECT_EQ(method_for(shape_of(9, 16, 8, 16, 3, 2), ImageLayout::blocked), others);
  EXPECT_EQ(method_for(shape_of(9, 16, 8, 16, 1, 1, 0), ImageLayout::blocked), others);
  EXPECT_EQ(method_for(shape_of(1, 16, 8, 16, 3, 2), ImageLayout::blocked), Method::packed);
  EXPECT_EQ(method_for(shape_of(1, 512, 4, 512), ImageLayout::blocked), Method::packed);
  EXPECT_EQ(method_for(shape_of(1, 3, 8, 16), ImageLayout::plain), Method::direct);
  EXPECT_FALSE(serves(shape_of(1, 12, 8, 16), ImageLayout::blocked));
  EXPECT_FALSE(serves(shape_of(1, 16, 8, 12), ImageLayout::blocked));
  EXPECT_FALSE(serves(shape_of(1, 16, 2, 16, 5, 1, 0), ImageLayout::blocked));
  EXPECT_FALSE(serves(shape_of(1, 12, 8, 16), ImageLayout::plain));
  EXPECT_TRUE(serves(shape_of(1, 3, 2, 16, 5, 1, 2), ImageLayout::plain));
  EXPECT_FALSE(serves(shape_of(1, 3, 1, 16, 5, 1, 2), ImageLayout::plain));
}

// So that a model gets the same bits from processors with AVX-512, which pack them, as from others.
TEST(PackedConvolution, AddsInTheOrderOfTheDirectOne) {
  for (const ConvShape& s :
       {shape_of(3, 16, 31, 32, 3, 2), shape_of(2, 32, 15, 64, 3, 2), shape_of(2, 24, 9, 40),
        shape_of(1, 16, 17, 16, 5, 1, 2), shape_of(3, 8, 17, 8, 3, 2)}) {
    const Inputs<float> in(s);
    const Results<float> direct = by_convolution<DirectConvolution>(s, in),
                         packed = by_convolution<Packed>(s, in);
    EXPECT_EQ(direct.y, packed.y);
    EXPECT_EQ(direct.dx, packed.dx);
    if (s.in_channels > 8) {
      EXPECT_EQ(direct.dw, packed.dw);
    }
  }
}

TEST(PackedConvolution, OfAnyShapeGivesWhatTheDefinitionGives) {
  for (const ConvShape& s :
       {shape_of(5, 16, 9, 32, 3, 2), shape_of(2, 16, 8, 24, 1, 2, 0),
        shape_of(9, 8, 3, 40, 1, 1, 0), shape_of(1, 24, 7, 8, 5, 3, 1),
        shape_of(3, 8, 30, 16, 4, 2, 3), shape_of(2, 8, 5, 8, 2, 4, 2),
        shape_of(30, 16, 2, 8, 3, 2, 2), shape_of(2, 16, 6, 24, 7, 1, 3),
        shape_of(70, 8, 4, 16, 5, 2, 2), shape_of(9, 64, 30, 96, 1, 2, 0),
        shape_of(20, 48, 15, 24, 5, 1, 2), shape_of(30, 32, 9, 16, 3, 2),
        shape_of(2, 24, 21, 40, 1, 2, 0),     // dx in place
        shape_of(2, 32, 60, 96, 1, 1, 0),     // some pieces at a time
        shape_of(1, 32, 61, 48, 1, 2, 0),     // both
        ConvShape{2, 16, 5, 1, 16, 3, 3, 1},  // rows of one pixel
        ConvShape{9, 16, 1, 1, 16, 2, 2, 1}, ConvShape{2, 16, 5, 1, 8, 1, 3, 1}}) {
    const Inputs<float> in(s);
    expect_close(by_convolution<Packed>(s, in), by_definition(s, in), 1e-5);
  }
}

TEST(Products, GiveTheSameBitsWithAndWithoutAvx512) {
  if (!has_avx512()) return;  // then there is one kind only
  constexpr int64_t kRows = 43, kBlocks = 3, kSecond = kRows * kLanes;
  const std::vector<float> x = random_numbers<float>(kBlocks * kSecond, 1),
                           dy = random_numbers<float>(2 * kSecond, 2),
                           filters = random_numbers<float>(kBlocks * kLanes * kPair, 3);
  constexpr Link kLink = {0, 0};
  constexpr kernels::Run kRun = {0, 0, kRows};
  constexpr int64_t kOffsets[] = {0, 5, 11, 17};
  std::vector<float> results[2], products[2];
  std::vector<double> totals[2];
  for (const int wide : {0, 1}) {
    const Products<float>& by = wide == 1 ? avx512::kProducts : avx2::kProducts;
    results[wide].resize(2 * kSecond);
    products[wide].resize(kLanes * kPair);
    by.gather({x.data(), kBlocks, kBlocks - 1, kSecond, &kLink, 1, filters.data(), 1,
               results[wide].data(), kLanes, kSecond, kRows, 1, 0});
    by.outer({x.data(), kLanes, dy.data(), kSecond, &kRun, 1, products[wide].data(), 1, 0, 0,
              Sum::begins});
    totals[wide].resize(4 * 3 * kPair, 1.0);
    by.strips({x.data(), kOffsets, 4, 3, 2, 30, dy.data(), kSecond, 4, 10, totals[wide].data()});
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(products[0], products[1]);
  EXPECT_EQ(totals[0], totals[1]);
}

class Winograd : public testing::TestWithParam<ConvShape> {};

TEST_P(Winograd, IsExactInDoublesUpToRounding) {
  const ConvShape s = GetParam();
  const Inputs<double> in(s);
  const Results<double> expected = by_definition(s, in);
  const ConvShape back = s.transposed();
  std::vector<double> scratch(
      static_cast<size_t>(std::max(winograd_scratch_count(s), winograd_scratch_count(back))));
  std::vector<double> filters(static_cast<size_t>(winograd_filter_count(s)));
  winograd_filters(s, Weights::plain, in.w.data(), filters.data());
  std::vector<double> y(y_count(s)), piecewise(y_count(s)), dx(x_count(s)), dw(weight_count(s));
  winograd_convolve(s, in.x.data(), filters.data(), y.data(), scratch.data());
  winograd_convolve(s, in.x.data(), Weights::plain, in.w.data(), piecewise.data(), scratch.data());
  winograd_convolve(back, in.dy.data(), Weights::transposed, in.w.data(), dx.data(),
                    scratch.data());
  winograd_weight_gradient(s, in.x.data(), in.dy.data(), dw.data(), scratch.data());
  EXPECT_LT(difference(y, expected.y), 1e-13);
  EXPECT_EQ(y, piecewise);
  EXPECT_LT(difference(dx, expected.dx), 1e-13);
  EXPECT_LT(difference(dw, expected.dw), 1e-13);
}

INSTANTIATE_TEST_SUITE_P(Of, Winograd,
                         testing::Values(shape_of(2, 16, 9, 24), shape_of(1, 8, 3, 8)),
                         [](const auto& of) {
                           return "ImagesOfHeight" + std::to_string(of.param.in_height);
                         });

}  // namespace
}  // namespace lockstep::kernels
