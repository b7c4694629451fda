#pragma once

#include <functional>
#include <string>

#include "elastic/coordinator.h"
#include "launch/ending.h"

namespace lockstep::launch {

struct ElasticOptions {
  int places = 1;  ///< workers that this host begins with
  std::function<void(const std::string& message)> tell;
};

/// How a job ended whose workers came and went, as far as this host knows.
struct ElasticEnding {
  int exit_code = 0;
  std::string failure;   ///< why it did not come to its end; "" where it did or was asked to stop
  bool gave_up = false;  ///< too few workers were left: it was stopped, with a checkpoint
  int deaths = 0;        ///< workers of this host that died on the way
};

/// Runs `worker_main(place)` in new processes and starts another one in the place of each that
/// dies, until the job is at its end. SIGINT and SIGTERM are passed on to the workers; given again,
/// they are killed. Call it before any thread is started.
///
/// With a `coordinator` this is where the job is led from: it says how many places there are, and
/// when the end has come. Without one, the job is led from another host: this one's part has ended
/// when all its workers have, and none of them was killed.
ElasticEnding run_elastic_workers(const ElasticOptions& options, elastic::Coordinator* coordinator,
                                  const std::function<int(int place)>& worker_main);

}  // namespace lockstep::launch
