#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/batch.h"
#include "lockstep/world.h"

namespace lockstep::parallel {

/// What a part of a model passes to the next one (its outputs) or to the one before it (gradients).
struct StageMessage {
  /// Undefined tensors, and whether a tensor requires a gradient, are transferred too.
  Tensors tensors;
  at::Tensor generator = {};  ///< of random numbers: its state; undefined: as seeded
  int64_t notes = 0;          ///< for the caller
  int64_t received = 0;       ///< how many messages the sender has received in the other direction
  /// By distinct tensor: whether the receiver must not change it in place, since another tensor has
  /// the same memory, in the message or at the sender. Empty: none.
  std::vector<bool> read_only = {};
};

/// Carries messages from one part of a model to another, in the order in which they are sent.
class StageLink {
 public:
  virtual ~StageLink() = default;

  /// Returns at once. The message's tensors must not be changed before `finish`.
  virtual void send(StageMessage message) = 0;
  /// Waits for the next message. Its tensors are in the receiving part's device's memory, and have
  /// no history.
  virtual StageMessage receive() = 0;
  /// Waits until all messages that were sent have been received.
  virtual void finish() = 0;
  /// Frees the memory of the first `messages` that were sent, which have been received.
  virtual void release(int64_t messages) = 0;
  /// In which the other worker may wait for this one, if there is another.
  virtual std::optional<World> world() const { return std::nullopt; }
};

/// Between two parts of this worker; `device` is the receiving one's.
std::unique_ptr<StageLink> make_local_link(c10::Device device);

/// Between two workers: `world` consists of the sender, rank 0, and the receiver, and is used for
/// nothing else. `device` is the receiving worker's.
std::unique_ptr<StageLink> make_remote_link(World world, c10::Device device);

}  // namespace lockstep::parallel
