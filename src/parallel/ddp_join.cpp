// DistributedDataParallel::join.
#include "lockstep/sharded_optimizer.h"
#include "parallel/gradient_sync.h"
#include "parallel/share_optimizer.h"
#include "parallel/tensor_buffer.h"

namespace lockstep {

void GradientSync::State::join(const std::function<void()>& loop, const Optimizers& optimizers) {
  if (has_shards())
    throw BadInput(
        "join with DdpOptions::shards: every step has all its shards, so no worker can have fewer "
        "passes");
  for (const torch::optim::Optimizer* const optimizer : optimizers)
    if (dynamic_cast<const ShardedUpdate*>(optimizer) != nullptr)
      throw BadInput(
          "join with a ShardedOptimizer: its steps need all workers; give all workers equally many "
          "batches (Uneven::pad or Uneven::drop)");
  if (const auto name = parallel::sync_batch_norm_of(model_))
    throw BadInput(
        "join with SyncBatchNorm '{}': it needs a batch of every worker in every pass; give all "
        "workers equally many batches (Uneven::pad or Uneven::drop)",
        *name);
  if (const auto device = replica_.parameters().tensors[0].device(); !device.is_cpu())
    throw BadInput(
        "join on {}: LibTorch cannot load an optimizer's state there; give all workers equally "
        "many batches (Uneven::pad or Uneven::drop)",
        parallel::device_name(device));
  fail_stop_->run([&] {
    joining_ = true;
    passes_ = 0;
    loop();
    stand_in_for_the_rest();
    joining_ = false;
    take_final_model(optimizers);
  });
}

// The first rank that has not joined; the world size if all have.
int GradientSync::State::first_active(Active active) {
  return static_cast<int>(
      reduced(active == Active::yes ? group_.rank() : group_.world_size(), Operation::min));
}

void GradientSync::State::stand_in_for_the_rest() {
  try {
    for (int first = first_active(Active::no); first < group_.world_size();
         first = first_active(Active::no))
      stand_in(first);
  } catch (const Mismatch& mismatch) {
    throw Mismatch(
        "{}; rank {} has ended its loop in DistributedDataParallel::join and takes part in the "
        "other workers' forward and backward passes only: call no other collective in the loop",
        mismatch.what(), world_.rank());
  }
}

// Takes part in the collectives of the other workers' forward and backward passes.
void GradientSync::State::stand_in(int first_active) {
  sync_buffers(first_active);
  replica_.begin_backward(0);
  const std::vector<size_t> missing = replica_.end_backward();
  replica_.finish(replica_.pieces());
  if (options_.unused == Unused::find) give_views(missing);
  if (!order_is_learned_) learn_order();
}

// Workers that had fewer passes have updated their optimizers less often.
void GradientSync::State::take_final_model(const Optimizers& optimizers) {
  const int64_t most = reduced(passes_, Operation::max);
  const auto root = static_cast<int>(
      reduced(passes_ == most ? group_.rank() : group_.world_size(), Operation::min));
  replica_.share_model(root);
  for (torch::optim::Optimizer* const optimizer : optimizers)
    parallel::share_optimizer(*optimizer, root, group_);
}

}  // namespace lockstep
