#pragma once

#include "collective/communicator.h"
#include "observe/spans.h"
#include "run/events.h"
#include "train/setup.h"

namespace lockstep::train {

/// {"forward": 1.2, "backward": 2.5, ...}, in seconds.
run::Json to_json(const observe::SpanTimes& times);

/// The bytes that this worker has sent since it started, by kind.
run::Json bytes_sent(collective::Communicator& group);
/// The sum over all workers. Collective.
run::Json bytes_sent_by_all(collective::Communicator& group);

/// The memory of the device that needed most, and of all if there are several. Collective.
run::Json memory_of_all(const Setup& setup);

/// Where stages have workers of their own: what each did with its time, and the share of it in
/// which they waited for each other. Collective.
run::Json times_of_stages(const Setup& setup, const observe::SpanTimes& spans);

}  // namespace lockstep::train
