// How fast each convolution of a network is, by our kernels and by oneDNN's direct ones in the same
// layout, in GFLOPS *by the definition* (Winograd's way does a quarter of the multiplications, so
// it may well exceed the processor's peak), beside a matrix product measured in the same run. The
// rule in kernels/convolution.cpp follows from this table.
//
//     scripts/build release -DLOCKSTEP_BENCH=ON -- kernels
//     OMP_NUM_THREADS=1 taskset -c 1 build/release/kernels [BATCH]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/convolution.h"

namespace {

using namespace lockstep::kernels;

// The processor's time, which other processes on it do not count towards.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds of one call: the best of many.
double best(const std::function<void()>& call) {
  call();
  double least = 1e9;
  for (int i = 0; i < 20; ++i) {
    const double began = now();
    int calls = 0;
    do {
      call();
      ++calls;
    } while (now() - began < 0.005);
    least = std::min(least, (now() - began) / calls);
  }
  return least;
}

std::vector<float> numbers(int64_t count) {
  std::vector<float> of(static_cast<size_t>(count));
  for (float& value : of) value = static_cast<float>(std::rand() % 2001 - 1000) / 1000;
  return of;
}

double matrix_product_speed() {
  constexpr int64_t n = 512;
  const std::vector<float> a = numbers(n * n), b = numbers(n * n);
  std::vector<float> c(n * n);
  const double seconds =
      best([&] { dnnl::sgemm('N', 'N', n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n); });
  return 2.0 * n * n * n / seconds / 1e9;
}

struct Speeds {
  double forward, input_gradient, weight_gradient;
};

template <typename Kind>
Speeds measure(const ConvShape& s, ImageLayout layout) {
  Kind convolution(s, layout);
  const std::vector<float> x = numbers(s.samples * s.in_channels * s.in_height * s.in_width);
  const std::vector<float> dy =
      numbers(s.samples * s.out_channels * s.out_height() * s.out_width());
  const std::vector<float> w = numbers(s.out_channels * s.in_channels * s.kernel * s.kernel);
  std::vector<float> y(dy.size()), dx(x.size()), dw(w.size());
  std::vector<std::byte> scratch(static_cast<size_t>(convolution.scratch_bytes()));
  const auto speed = [&](const std::function<void()>& call) {
    return s.operations() / best(call) / 1e9;
  };
  Speeds of = {};
  of.forward = speed([&] { convolution.forward(w.data(), x.data(), y.data(), scratch.data()); });
  if (layout == ImageLayout::blocked)
    of.input_gradient =
        speed([&] { convolution.input_gradient(w.data(), dy.data(), dx.data(), scratch.data()); });
  if (layout == ImageLayout::blocked || std::is_same_v<Kind, Convolution>)
    of.weight_gradient =
        speed([&] { convolution.weight_gradient(x.data(), dy.data(), dw.data(), scratch.data()); });
  return of;
}

struct Layer {
  const char* of;
  int64_t in, side, out, kernel, stride, padding;
};

constexpr Layer kLayers[] = {
    {"resnet20", 3, 32, 16, 3, 1, 1},   {"resnet20", 16, 32, 16, 3, 1, 1},
    {"resnet20", 16, 32, 32, 3, 2, 1},  {"resnet20", 32, 16, 32, 3, 1, 1},
    {"resnet20", 32, 16, 64, 3, 2, 1},  {"resnet20", 64, 8, 64, 3, 1, 1},
    {"resnet18", 64, 32, 64, 3, 1, 1},  {"resnet18", 64, 32, 128, 3, 2, 1},
    {"resnet18", 64, 32, 128, 1, 2, 0}, {"resnet18", 128, 16, 128, 3, 1, 1},
    {"resnet18", 256, 8, 256, 3, 1, 1}, {"resnet18", 256, 8, 512, 3, 2, 1},
    {"resnet18", 512, 4, 512, 3, 1, 1}, {"convnet", 1, 28, 32, 3, 1, 0},
    {"convnet", 32, 13, 64, 3, 1, 0},
};

}  // namespace

int main(int argc, char** argv) {
  const int64_t batch = argc > 1 ? std::atoll(argv[1]) : 32;
  const double limit = matrix_product_speed();
  std::printf("batch %ld; a matrix product of 512 x 512 x 512: %.0f GFLOPS\n", batch, limit);
  std::printf("%-9s %-24s %-9s %23s %23s %8s\n", "", "layer", "by", "GFLOPS y, dx, dw",
              "oneDNN's direct", "of limit");
  for (const Layer& l : kLayers) {
    const ConvShape shape = {batch, l.in, l.side, l.side, l.out, l.kernel, l.stride, l.padding};
    const ImageLayout layout = l.in % 8 == 0 ? ImageLayout::blocked : ImageLayout::plain;
    const Speeds ours = measure<Convolution>(shape, layout);
    const Speeds direct = measure<DirectConvolution>(shape, layout);
    const std::string name = std::to_string(l.in) + " -> " + std::to_string(l.out) + ", " +
                             std::to_string(l.side) + " x " + std::to_string(l.side) + ", " +
                             std::to_string(l.kernel) + "/" + std::to_string(l.stride);
    std::printf("%-9s %-24s %-9s %7.0f %7.0f %7.0f %7.0f %7.0f %7.0f %7.2f\n", l.of, name.c_str(),
                to_string(method_for(shape, layout)), ours.forward, ours.input_gradient,
                ours.weight_gradient, direct.forward, direct.input_gradient, direct.weight_gradient,
                ours.forward / limit);
  }
  return 0;
}
