#include "sim/network.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest.h"
#include "lockstep/error.h"

namespace lockstep::sim {
namespace {

void expect_time(const char* name, double seconds) {
  if (!(seconds >= 0) || seconds == kUnlimited)
    throw BadInput("network: {} of {} seconds: expected at least 0", name, seconds);
}

void expect_speed(const char* name, double bytes_per_second) {
  if (!(bytes_per_second > 0))
    throw BadInput("network: {} of {} bytes/s: expected more than 0", name, bytes_per_second);
}

}  // namespace

const std::vector<std::string>& topology_names() {
  static const std::vector<std::string> names = {"switch", "ring", "two_level"};
  return names;
}

Topology parse_topology(const std::string& name) {
  const auto& names = topology_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw BadInput("topology '{}': no such topology{}; there are: {}", name,
                   did_you_mean(name, names), fmt::join(names, ", "));
  return static_cast<Topology>(found - names.begin());
}

void check(const Network& network) {
  expect_time("latency", network.latency);
  expect_time("latency inside a host", network.host_latency);
  expect_time("overhead", network.overhead);
  expect_time("overhead of a byte", network.overhead_per_byte);
  expect_time("wake", network.wake);
  expect_speed("bandwidth", network.bytes_per_second);
  expect_speed("bandwidth inside a host", network.host_bytes_per_second);
  expect_speed("reduction speed", network.reduce_bytes_per_second);
  if (network.eager_bytes < 0)
    throw BadInput("network: eager messages of {} bytes: expected at least 0", network.eager_bytes);
  if (!(network.processors > 0))
    throw BadInput("network: {} processors: expected more than 0", network.processors);
  if (network.burst_bytes < 0)
    throw BadInput("network: bursts of {} bytes: expected at least 0", network.burst_bytes);
  if (network.workers_per_host < 1)
    throw BadInput("network: {} workers per host: expected at least 1", network.workers_per_host);
}

}  // namespace lockstep::sim
