// Buffers in a device's memory: which transport carries them, and who computes there.
#include <algorithm>

#include "collective/communicator.h"
#include "collective/fold/fold.h"

namespace lockstep::collective {

transport::Transport& Communicator::carrier(transport::Place place) {
  if (place == transport::Place::host) return transport_->for_host_memory();
  if (transport_->device() == nullptr)
    throw BadInput("transport {} carries no device's memory; nccl does", transport_->name());
  return *transport_;
}

transport::Arithmetic& Communicator::arithmetic(transport::Place place) {
  return place == transport::Place::host ? host_arithmetic()
                                         : carrier(place).device()->arithmetic();
}

std::shared_ptr<transport::Handover> Communicator::hand_over(std::span<const Buffer> buffers) {
  const bool on_device = std::any_of(buffers.begin(), buffers.end(), [](const Buffer& buffer) {
    return buffer.place == transport::Place::device;
  });
  return on_device ? carrier(transport::Place::device).device()->hand_over() : nullptr;
}

}  // namespace lockstep::collective
