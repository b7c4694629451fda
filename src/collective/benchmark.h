#pragma once

#include <cstdint>

#include "collective/communicator.h"
#include "collective/plan/collectives.h"

namespace lockstep::collective {

/// What to measure.
struct Benchmark {
  Collective collective = Collective::all_reduce;
  Type type = Type::f32;
  Operation operation = Operation::sum;
  int64_t bytes = 0;
  int batches = 10;
  /// Whether every rank writes its whole bucket before each collective, as training does; the time
  /// of writing is subtracted.
  bool fresh = false;
  bool check_every_batch = false;
};

struct BenchmarkResult {
  double seconds = 0;        ///< of one collective: the average of the best batch, slowest rank
  double limit_seconds = 0;  ///< in which all ranks at once read and write as many bytes
  int64_t wrong = 0;         ///< elements of all ranks that are not as expected
};

/// Calls a collective with rank 0 as root, and returns the buffer with the result: `second` for
/// all_to_all and exchange, else `buffer`. send_receive is from rank 0 to rank 1, exchange from
/// each rank to the next.
Buffer call(Communicator& group, Collective collective, Buffer buffer, Buffer second,
            Operation operation);

/// Collective. Checks the result once, or after every batch.
BenchmarkResult measure(Communicator& group, const Benchmark& benchmark);

/// The factor from size/time to the bytes per second that links carry, which does not depend on the
/// number of ranks (as nccl-tests defines it).
double bus_factor(Collective collective, int world);

}  // namespace lockstep::collective
