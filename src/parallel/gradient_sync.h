#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "lockstep/ddp.h"
#include "parallel/fail_stop.h"
#include "parallel/replica.h"

namespace lockstep {

/// A DistributedDataParallel. Words: a backward pass is *under way* from its first gradient until
/// all buckets are reduced; the autograd engine waits for that before `backward()` returns. A
/// worker that has *joined* has no more batches, and takes part in collectives with zeros. Any
/// exception in between, from here or from the user's code, stops everything: see fail_stop.h.
///
/// The functions are in ddp.cpp (passes), ddp_join.cpp (join) and ddp_checks.cpp (what is refused).
class GradientSync::State {
 public:
  State(torch::nn::Module& model, const World& world, const DdpOptions& options);

  void before_forward();
  void pause();
  void go_on() { --pauses_; }
  bool step_complete() const { return pass_ == 0; }
  void join(const std::function<void()>& loop, const Optimizers& optimizers);
  double clip_gradient_norm(double largest) {
    if (pass_ != 0)
      throw BadInput(
          "clip_gradient_norm in the middle of a step: {} of this worker's {} shards are computed; "
          "clip once step_complete() is true",
          pass_, replica_.passes());
    return replica_.clip_gradient_norm(largest);
  }
  StragglerReport stragglers();

 private:
  bool has_shards() const { return options_.shards > 0; }
  void begin_pass();
  void refuse_sync_batch_norm();
  void refuse_other_orders();
  void warn_before_the_first_pass();
  void on_gradient(size_t parameter);
  void begin_backward();
  void finish_backward();
  void finish_step(const std::vector<size_t>& missing);
  void refuse_unused(const std::vector<size_t>& missing);
  std::vector<size_t> take_earlier(const std::vector<size_t>& missing);
  void give_views(const std::vector<size_t>& without);
  void learn_order();
  enum class Active { no, yes };
  int first_active(Active active);
  int64_t reduced(int64_t value, Operation operation);
  void sync_buffers(int root);
  void stand_in_for_the_rest();
  void stand_in(int first_active);
  void take_final_model(const Optimizers& optimizers);

  // Constant after construction.
  torch::nn::Module& model_;
  World world_;
  const DdpOptions options_;
  parallel::Replica replica_;
  collective::Communicator& group_;
  const parallel::Parameters& parameters_;
  std::shared_ptr<parallel::FailStop> fail_stop_;

  int pauses_ = 0;  ///< number of open no_sync scopes
  bool under_way_ = false;
  bool joining_ = false;
  /// Whether this worker has had a forward pass in training since buffers were synchronised. They
  /// may also have been changed before the first one.
  bool buffers_may_differ_ = true;
  bool order_is_learned_ = false;
  bool warned_ = false;        ///< before the first pass
  std::vector<size_t> order_;  ///< of gradients in the first backward pass
  int64_t passes_ = 0;         ///< backward passes since the start of `join`

  // With shards.
  int pass_ = 0;             ///< number of finished passes of the step
  bool pass_begun_ = false;  ///< by a forward pass
  int64_t steps_ = 0;
};

namespace parallel {

/// Collective: throws Mismatch if workers have different options.
void require_same_options(const DdpOptions& options, collective::Communicator& group);

/// The name of a SyncBatchNorm of the model: "" if it is the model itself.
std::optional<std::string> sync_batch_norm_of(const torch::nn::Module& model);

}  // namespace parallel
}  // namespace lockstep
