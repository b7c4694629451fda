#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace lockstep::sim {

/// How ranks are joined.
///
/// single_switch  "switch": every rank has one link to a switch that is never the bottleneck
/// ring           neighbours have a link; a message takes the shorter way round (at equal length
///                the one that does not join the last rank and the first) and crosses every link
///                on it
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

/// A modelled network and the processors at its ends. What each number does to a message is said in
/// sim/simulate.cpp.
struct Network {
  Topology topology = Topology::single_switch;
  Duplex duplex = Duplex::full;
  /// Seconds from end to end however small the message; in a ring, from neighbour to neighbour.
  double latency = 50e-6;
  double bytes_per_second = 125e6;  ///< of a link, in each direction
  /// Seconds a rank's processor is busy with each message that it sends, and each it receives.
  double overhead = 0;
  /// And with each byte of it, if the message is eager: of longer ones processors do their part
  /// while links do theirs, which take longer.
  double overhead_per_byte = 0;
  /// Processors that all ranks share, where they do: several hosts that are one machine.
  double processors = kUnlimited;
  /// Seconds of processor in which a rank wakes up to receive in a round, however many messages.
  double wake = 0;
  /// How fast a rank folds. Copying is free.
  double reduce_bytes_per_second = kUnlimited;
  /// Messages up to this many bytes leave at once and wait in the receiver's buffers, as those that
  /// fit a socket's do. Longer ones leave when the receiver has begun the round too, and occupy
  /// their sender until they have arrived.
  int64_t eager_bytes = 0;

  /// What a link lets pass at once after a rest, as one does that is shaped by a token bucket.
  int64_t burst_bytes = 0;

  int workers_per_host = 1;  ///< two_level only, like the two below
  double host_latency = 1e-6;
  double host_bytes_per_second = 5e9;
};

/// Throws BadInput that names the value a network cannot have.
void check(const Network& network);

}  // namespace lockstep::sim
