#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/network.h"

namespace lockstep::sim {

/// Links begin .. end-1.
struct LinkRange {
  int begin = 0;
  int end = 0;

  int size() const { return end - begin; }
};

/// The links that a message crosses, at most two runs of them, with their latency and bandwidth.
struct Path {
  std::array<LinkRange, 2> runs;
  double latency = 0;
  double bytes_per_second = 0;  ///< all links of a path are equally fast

  int hops() const { return runs[0].size() + runs[1].size(); }
};

/// The links of a network between `world` ranks, by number. A link that carries both directions at
/// once counts as two.
class Links {
 public:
  Links(const Network& network, int world);

  int size() const { return static_cast<int>(bytes_per_second_.size()); }
  double bytes_per_second(int link) const { return bytes_per_second_[static_cast<size_t>(link)]; }

  Path path(int from, int to) const;

 private:
  Path ring_path(int from, int to) const;
  Path single_links(int from, int to, int first) const;

  Network network_;
  int world_;
  int hosts_;
  std::vector<double> bytes_per_second_;
};

}  // namespace lockstep::sim
