#pragma once

#include <memory>

#include "transport/nccl/device_queue.h"
#include "transport/transport.h"

namespace lockstep::transport {

struct NcclOptions {
  /// How long ranks wait for each other while they connect.
  double connect_seconds = 60;
};

/// Carries the memory of the queue's device by NCCL. `host`, which connects the same ranks, carries
/// everything else: host memory, the labels and sizes of messages, so that ranks which call
/// different collectives get a Disagreement instead of mixed up data; aborts, whereabouts and
/// heartbeats. Its `engine` is ncclAllReduce. Collective.
///
/// NCCL never blocks a thread: what it and the device do is polled, with deadlines. When a rank is
/// lost, late or aborts, or NCCL reports an error, every rank aborts its NCCL communicator; the
/// transport cannot be used afterwards.
std::unique_ptr<Transport> connect_nccl(Rendezvous& rendezvous, std::unique_ptr<Transport> host,
                                        std::unique_ptr<DeviceQueue> queue,
                                        const NcclOptions& options = {});

}  // namespace lockstep::transport
