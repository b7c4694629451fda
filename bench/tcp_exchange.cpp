// All-reduce of f32 by halving between two processes over tcp on loopback: each sends one half and
// combines the other, then they swap halves. Prints the best and the median of many in GB/s
// (size / time), and the processor time of one, which says more on a machine that does other work
// too. For tuning buffers and pieces.
//
//   cmake -S . -B build/bench -DLOCKSTEP_BENCH=ON && cmake --build build/bench -t tcp_exchange
//   build/bench/tcp_exchange [bytes = 26214400] [streams = 1] [repeats = 100]
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/socket.h"
#include "net/tcp_rendezvous.h"
#include "transport/tcp/tcp.h"

using namespace lockstep;
using namespace lockstep::net;
using namespace lockstep::transport;

namespace {

struct Settings {
  size_t bytes = 25 << 20;
  int streams = 1;
  int repeats = 100;
};

void add_floats(std::byte* into, const std::byte* from, size_t bytes) {
  auto* sum = reinterpret_cast<float*>(into);
  const auto* term = reinterpret_cast<const float*>(from);
  for (size_t i = 0; i < bytes / sizeof(float); ++i) sum[i] += term[i];
}

void all_reduce(Transport& tcp, std::byte* data, size_t half) {
  const int peer = 1 - tcp.rank();
  std::byte* mine = data + (tcp.rank() == 0 ? 0 : half);
  std::byte* theirs = data + (tcp.rank() == 0 ? half : 0);
  const Outgoing send_theirs{peer, theirs, half};
  const Incoming add_mine{peer, mine, half, add_floats};
  tcp.exchange({}, {&send_theirs, 1}, {&add_mine, 1}, Deadline::in(10));
  const Outgoing send_mine{peer, mine, half};
  const Incoming get_theirs{peer, theirs, half};
  tcp.exchange({}, {&send_mine, 1}, {&get_theirs, 1}, Deadline::in(10));
}

double processor_seconds() {
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

int run(int rank, uint16_t port, const Settings& settings) {
  const auto meeting = rendezvous_over_tcp({.rank = rank,
                                            .world_size = 2,
                                            .host = "127.0.0.1",
                                            .port = port,
                                            .key = "k",
                                            .timeout_seconds = 10});
  const auto tcp = connect_tcp(*meeting, {.key = "k", .streams = settings.streams});
  const Memory memory = tcp->allocate(settings.bytes);
  auto* data = reinterpret_cast<float*>(memory.data.get());
  const size_t count = settings.bytes / sizeof(float);
  std::vector<double> seconds;
  double processor = 0;
  for (int i = 0; i < settings.repeats; ++i) {
    std::fill(data, data + count, static_cast<float>(rank + 1));
    const double before = processor_seconds();
    const Stopwatch watch;
    all_reduce(*tcp, memory.data.get(), settings.bytes / 2);
    seconds.push_back(watch.seconds());
    processor += processor_seconds() - before;
    if (std::any_of(data, data + count, [](float x) { return x != 3; })) return 1;
  }
  std::sort(seconds.begin(), seconds.end());
  const auto size = static_cast<double>(settings.bytes);
  if (rank == 0)
    fmt::print(
        "{} bytes, {} streams: best {:.2f} GB/s ({:.1f} us), median {:.2f} GB/s, processor "
        "{:.1f} us\n",
        settings.bytes, settings.streams, size / seconds.front() / 1e9, seconds.front() * 1e6,
        size / seconds[seconds.size() / 2] / 1e9, processor * 1e6 / settings.repeats);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (argc > 1) settings.bytes = std::stoul(argv[1]) / 128 * 128;
  if (argc > 2) settings.streams = std::stoi(argv[2]);
  if (argc > 3) settings.repeats = std::stoi(argv[3]);
  const uint16_t port = local_address(listen_at("127.0.0.1", 0).get()).port();
  const pid_t child = fork();
  if (child == 0) _exit(run(1, port, settings));
  const int own = run(0, port, settings);
  int status = 0;
  waitpid(child, &status, 0);
  if (own != 0 || status != 0) fmt::print(stderr, "wrong sums\n");
  return own != 0 || status != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
