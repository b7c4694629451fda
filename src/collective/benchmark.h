#pragma once

#include <cstdint>

#include "collective/communicator.h"
#include "collective/plan/request.h"

namespace lockstep::collective {

/// What to measure.
struct Benchmark {
  Collective collective = Collective::all_reduce;
  Type type = Type::f32;
  Operation operation = Operation::sum;
  int64_t bytes = 0;
  int batches = 10;
  /// Whether every rank writes its whole bucket anew before each collective, as training does; the
  /// time of writing is taken off.
  bool fresh = false;
  bool check_every_batch = false;
};

struct BenchmarkResult {
  double seconds = 0;        ///< of the best batch's average, on the slowest rank
  double limit_seconds = 0;  ///< in which all ranks read and write as many bytes, all at once
  int64_t wrong = 0;         ///< elements, of all ranks
};

/// Calls a collective by its name, with rank 0 as root; a message goes from rank 0 to rank 1.
void call(Communicator& group, Collective collective, Buffer buffer, Operation operation);

/// Collective. Checks the result once, or after every batch.
BenchmarkResult measure(Communicator& group, const Benchmark& benchmark);

/// What to multiply size/time with to get the bytes per second that links carry, which does not
/// depend on the number of ranks (as nccl-tests defines it).
double bus_factor(Collective collective, int world);

}  // namespace lockstep::collective
