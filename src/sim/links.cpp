// Numbers the links. The ends of a network (ranks of a switch, hosts of two levels, ranks inside
// hosts) are numbered from `first`; end e sends through link first + e and receives through link
// first + ends + e, or through the same one if it carries one direction at a time. In a ring, link
// i goes from rank i up to i + 1, and link world + i from i + 1 down to i.
#include "sim/links.h"

namespace lockstep::sim {
namespace {

int sides(const Network& network) {
  return network.duplex == Duplex::full ? 2 : 1;
}

}  // namespace

Links::Links(const Network& network, int world) : network_(network), world_(world) {
  const int per_host = network.topology == Topology::two_level ? network.workers_per_host : 1;
  hosts_ = (world + per_host - 1) / per_host;
  const auto outside = static_cast<size_t>(hosts_) * sides(network);
  bytes_per_second_.assign(outside, network.bytes_per_second);
  if (network.topology == Topology::two_level)
    bytes_per_second_.resize(outside + static_cast<size_t>(world) * sides(network),
                             network.host_bytes_per_second);
}

Path Links::path(int from, int to) const {
  switch (network_.topology) {
    case Topology::single_switch:
      return single_links(from, to, 0);
    case Topology::ring:
      return ring_path(from, to);
    case Topology::two_level: {
      const int from_host = from / network_.workers_per_host;
      const int to_host = to / network_.workers_per_host;
      if (from_host != to_host) return single_links(from_host, to_host, 0);
      return single_links(from, to, hosts_ * sides(network_));
    }
  }
  return {};
}

Path Links::single_links(int from, int to, int first) const {
  const bool inside = first > 0;
  const int ends = inside ? world_ : hosts_;
  const int out = first + from;
  const int in = first + to + (network_.duplex == Duplex::full ? ends : 0);
  return {.runs = {LinkRange{out, out + 1}, LinkRange{in, in + 1}},
          .latency = inside ? network_.host_latency : network_.latency,
          .bytes_per_second = inside ? network_.host_bytes_per_second : network_.bytes_per_second};
}

Path Links::ring_path(int from, int to) const {
  const int upwards = (to - from + world_) % world_;
  const int downwards = world_ - upwards;
  const bool up = upwards == downwards ? from < to : upwards < downwards;
  const int hops = up ? upwards : downwards;
  const int begin = up ? from : to;
  const int end = begin + hops;
  const int first = up || network_.duplex == Duplex::half ? 0 : world_;
  Path path{.latency = hops * network_.latency, .bytes_per_second = network_.bytes_per_second};
  path.runs[0] = {first + begin, first + (end < world_ ? end : world_)};
  if (end > world_) path.runs[1] = {first, first + end - world_};
  return path;
}

}  // namespace lockstep::sim
