#include "matpow/peak.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "base/clock.h"

namespace lockstep::matpow {
namespace {

// This thread's operators use so many threads meanwhile.
class ThreadsMeanwhile {
 public:
  explicit ThreadsMeanwhile(int threads) : before_(at::get_num_threads()) {
    at::set_num_threads(threads);
  }
  ~ThreadsMeanwhile() { at::set_num_threads(before_); }
  ThreadsMeanwhile(const ThreadsMeanwhile&) = delete;
  ThreadsMeanwhile& operator=(const ThreadsMeanwhile&) = delete;

 private:
  const int before_;
};

}  // namespace

double measure_peak_gflops(c10::Device device, int threads, int64_t size) {
  // The same size, unless that is too small for full speed or would take long.
  constexpr int64_t kSmallest = 512, kLargest = 4096, kLong = 2048;
  const int64_t edge = std::clamp(size, kSmallest, kLargest);
  const int times = edge > kLong ? 1 : 2;
  const ThreadsMeanwhile scope(threads);
  const at::Tensor x = at::ones({edge, edge}, device), y = at::ones({edge, edge}, device);
  at::Tensor product = at::empty_like(x);
  double best = 0;
  for (int i = 0; i < times; ++i) {
    const Stopwatch stopwatch;
    at::mm_out(product, x, y);
    product[0][0].item<float>();  // waits for the device
    const auto rows = static_cast<double>(edge);
    best = std::max(best, 2 * rows * rows * rows / stopwatch.seconds() / 1e9);
  }
  return best;
}

}  // namespace lockstep::matpow
