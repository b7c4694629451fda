#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/batch.h"
#include "parallel/mirrored_model.h"
#include "parallel/model_part.h"
#include "parallel/parameters.h"

namespace lockstep::parallel {

/// Bytes that were copied between the first device and the others.
struct MirrorTraffic {
  int64_t replicated = 0;  ///< parameters and buffers, from the first device
  int64_t scattered = 0;   ///< samples, from the first device
  int64_t gathered = 0;    ///< buffers, to the first device
  int64_t reduced = 0;     ///< gradients, to the first device
};

/// The devices of one worker that computes micro-batches on several of them: micro-batch m on
/// device m modulo their number. The first has the model; each other one has a *mirror* of it,
/// which is made equal to it before it computes, and gives its gradients and buffers back.
class DeviceMirrors {
 public:
  struct Mirror {
    MirroredModel model;
    ModelPart part;  ///< all of the mirrored model
  };

  /// `devices` begins with the model's; `mirrors` are on the others, in their order.
  DeviceMirrors(std::vector<c10::Device> devices, std::vector<Mirror> mirrors);

  const std::vector<c10::Device>& devices() const { return devices_; }
  c10::Device device_of(int micro_batch) const { return devices_[index_of(micro_batch)]; }
  /// Whether a mirror computes it.
  bool has(int micro_batch) const { return index_of(micro_batch) > 0; }
  const ModelPart& part_of(int micro_batch) const { return mirrors_[mirror_of(micro_batch)].part; }

  /// Makes the micro-batch's mirror equal to the model: in the first group of a step all of it,
  /// later only the buffers.
  void replicate(int micro_batch);
  /// The samples on the micro-batch's device.
  Batch scattered(const Batch& samples, int micro_batch);
  /// Copies the buffers of the micro-batch's mirror into the model's.
  void give_buffers(int micro_batch);
  /// Takes the gradients from the micro-batch's mirror: by trained parameter, on the first device;
  /// undefined where there is none.
  std::vector<torch::Tensor> take_gradients(int micro_batch);
  /// Drops the gradients of all mirrors.
  void forget_gradients();

  /// Whether it is the last one of those that devices compute at once, of so many in a step.
  bool ends_group(int micro_batch, int micro_batches) const {
    return micro_batch + 1 == micro_batches || index_of(micro_batch) + 1 == devices_.size();
  }
  /// Waits until all devices have computed and copied what they were asked for.
  void wait() const;

  const MirrorTraffic& traffic() const { return traffic_; }

 private:
  size_t index_of(int micro_batch) const {
    return static_cast<size_t>(micro_batch) % devices_.size();
  }
  size_t mirror_of(int micro_batch) const { return index_of(micro_batch) - 1; }

  // Constant after construction.
  const std::vector<c10::Device> devices_;
  std::vector<Mirror> mirrors_;
  std::vector<Parameters> trained_;  ///< of each mirror, in the model's order

  MirrorTraffic traffic_;
};

}  // namespace lockstep::parallel
