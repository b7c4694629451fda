#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace lockstep::sim {

/// How ranks are connected.
///
/// single_switch  "switch": every rank has one link to a switch that is never the bottleneck
/// ring           neighbours have a link; a message takes the shorter direction (at equal length
///                the one that does not connect the last rank with the first) and crosses every
///                link on its path
/// two_level      hosts of `workers_per_host` ranks each; a host has one link to the switch, which
///                its ranks share, and inside a host every rank has a link to all others
enum class Topology { single_switch, ring, two_level };

/// "switch", "ring", "two_level"; in the order of Topology.
const std::vector<std::string>& topology_names();

/// Throws BadInput with the nearest name.
Topology parse_topology(const std::string& name);

/// Whether a link carries both directions at once, each at full speed.
enum class Duplex { full, half };

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// A modelled network and the processors at its ends. sim/simulate.cpp describes what each number
/// does to a message.
struct Network {
  Topology topology = Topology::single_switch;
  Duplex duplex = Duplex::full;
  /// Seconds from end to end of the smallest message; in a ring, from neighbour to neighbour.
  double latency = 50e-6;
  double bytes_per_second = 125e6;  ///< of a link, in each direction
  /// Seconds for which each message keeps the processors of its sender and of its receiver busy.
  double overhead = 0;
  /// The same for each byte of an eager message. For longer messages processors work while links
  /// carry data, which takes longer.
  double overhead_per_byte = 0;
  /// How many processors all ranks share, where several hosts are one machine.
  double processors = kUnlimited;
  /// Seconds of processor time in which a rank wakes up to receive, once a round.
  double wake = 0;
  /// How fast a rank folds. Copying takes no time.
  double reduce_bytes_per_second = kUnlimited;
  /// Eager messages, those of up to this many bytes, are sent at once and wait in the receiver's
  /// buffers, like those that fit into a socket's. Longer ones are sent when the receiver has begun
  /// the round too, and occupy their sender until they have arrived.
  int64_t eager_bytes = 0;

  /// How many bytes a link lets pass at once after a pause, as with a token bucket.
  int64_t burst_bytes = 0;

  int workers_per_host = 1;  ///< two_level only, like the two below
  double host_latency = 1e-6;
  double host_bytes_per_second = 5e9;
};

/// Throws BadInput that names the first value that is out of range.
void check(const Network& network);

}  // namespace lockstep::sim
