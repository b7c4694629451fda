#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::peers {

/// Another library's all-reduce, as it is measured here: float sums in place.
class Peer {
 public:
  virtual ~Peer() = default;

  virtual std::string name() const = 0;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  virtual void barrier() = 0;
  /// The largest of all ranks' values, on every rank.
  virtual double largest(double value) = 0;

  /// The ways there are to do it; the best one counts.
  virtual std::vector<std::string> ways() const = 0;
  /// A function that sums `data` over all ranks, in place, as often as it is called.
  virtual std::function<void()> all_reduce(const std::string& way, float* data, size_t count) = 0;
};

struct Plan {
  std::vector<size_t> bytes = {1024, 1048576, 26214400};
  int rounds = 10;
  int workers = 2;  ///< for programs that start their own
};

/// --bytes 1024,1048576 --rounds 10 --workers 2; ends the program on anything else.
Plan parse(int argc, char** argv);

/// For every size and every way: checks a sum, warms up, then times `rounds` batches of calls, each
/// after a barrier. A batch takes as long as its slowest rank; the best batch counts. Rank 0 prints
/// an object a line. Returns the number of wrong elements.
size_t measure(Peer& peer, const Plan& plan);

}  // namespace lockstep::peers
