#pragma once

#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/range.h"
#include "lockstep/error.h"
#include "lockstep/pipeline.h"
#include "parallel/fail_stop.h"
#include "parallel/grid.h"
#include "parallel/passes.h"
#include "parallel/pipeline_part.h"
#include "parallel/sharded_vector.h"

namespace lockstep {

/// A Pipeline. The functions are in pipeline_step.cpp (steps), pipeline.cpp (evaluation),
/// pipeline_setup.cpp (how a model is divided, and what is refused) and pipeline_files.cpp (the
/// state of the whole model).
class Pipeline::State {
 public:
  State(std::shared_ptr<torch::nn::Module> model, World world, PipelineOptions options);

  double step(const Tensors& inputs, const Tensors& targets, const LossFunction& loss);
  Tensors forward(const Tensors& inputs);
  double clip_gradient_norm(double largest);
  Tensors whole_state();
  void save_to(const std::string& path);

  const std::vector<std::unique_ptr<parallel::PipelinePart>>& parts() const { return parts_; }
  World replicas() { return grid_.replicas(grid_.parts().front()); }
  std::string split() const;

 private:
  class LossPasses;

  void make_parts();
  void perform(const pipeline::Action& action, LossPasses& passes);
  std::string described(const pipeline::Action& action);
  void check_batch(const Tensors& inputs, const Tensors& targets) const;
  void require_same_samples(int64_t of_inputs, int64_t of_targets) const;
  parallel::PipelinePart& part(int number);
  bool has_first() const { return grid_.has_part(0); }
  bool has_last() const { return grid_.has_part(grid_.shape().parts() - 1); }
  void begin_step();
  double finish_step();
  void take_gradient(size_t part, size_t parameter);
  Tensors outputs_of(const Tensors& inputs);
  std::vector<World> worlds() const;

  // Constant after construction.
  const std::shared_ptr<torch::nn::Module> given_;  ///< by the user
  const std::shared_ptr<SequentialModel> model_;    ///< the same, or with the same modules
  World world_;
  PipelineOptions options_;  ///< without zeros, and without the example
  parallel::Grid grid_;
  const std::map<std::string, size_t> positions_;  ///< of the whole model's trained parameters
  std::vector<Range> layers_;                      ///< by part
  std::vector<std::unique_ptr<parallel::PipelinePart>> parts_;  ///< of this worker
  std::vector<pipeline::Action> actions_;                       ///< of this worker, in order
  /// Of the workers with the last part: the sum of losses.
  std::optional<parallel::ShardedVector<double>> loss_sum_;
  std::optional<parallel::FailStop> fail_stop_;

  bool in_backward_pass_ = false;
  std::vector<torch::Tensor> losses_;  ///< of the step, by micro-batch
  int64_t steps_ = 0;
};

namespace parallel {

/// The options without zeros that stand for something else. Collective. Throws BadInput for what
/// cannot be, and Mismatch if workers have different options or models.
PipelineOptions checked_options(const SequentialModel& model, World& world,
                                PipelineOptions options);

/// The layers of each part. Collective.
std::vector<Range> divided_layers(const std::shared_ptr<SequentialModel>& model, World& world,
                                  const PipelineOptions& options, int parts);

}  // namespace parallel
}  // namespace lockstep
