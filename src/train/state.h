#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lockstep/model.h"
#include "objective/scorecard.h"
#include "observe/spans.h"
#include "parallel/flat_state.h"
#include "run/safetensors.h"
#include "train/best.h"
#include "train/step.h"

namespace lockstep::train {

/// The time a run has spent, including before resumes.
struct TimeSpent {
  double total = 0;
  double stepping = 0;
  double evaluation = 0;
  double checkpoint = 0;
  observe::SpanTimes spans;
  int64_t samples = 0;  ///< trained on

  double samples_per_second() const {
    return stepping == 0 ? 0 : static_cast<double>(samples) / stepping;
  }
};

/// A run's position, without its tensors. The position in the data and the random streams follow
/// from `step`.
struct ResumePoint {
  int64_t step = 0;                ///< steps finished
  int64_t settled = 0;             ///< steps after which due evaluations and checkpoints are done
  objective::Totals epoch_so_far;  ///< of the current epoch
  objective::Totals last_epoch;    ///< of the last complete epoch
  TimeSpent spent;
  std::string data_sha256;  ///< what it was trained on
  Best best;
};

std::string to_text(const ResumePoint& point);
/// Throws nlohmann::json::exception for any other text.
ResumePoint resume_point_from(const std::string& text);

/// A model's parameters and buffers, and the optimizer's state, in host memory.
class CollectedState {
 public:
  /// Of a whole model that this worker has.
  explicit CollectedState(const Model& model);
  /// Whether the optimizer's state is collected as well.
  enum class Content { weights, everything };
  /// Of the model that this step trains. What is divided between workers is collected on rank 0,
  /// and not elsewhere. Collective between the workers of a pipeline; where the optimizer's state
  /// is divided and collected, too, between all workers.
  CollectedState(const Model& model, Step& step, Content content);

  /// The model's tensors, in its order, with PyTorch's state-dict names.
  const std::vector<run::TensorView>& model() const { return model_; }
  const std::vector<run::TensorView>& optimizer() const { return optimizer_; }

 private:
  void collect_optimizer(TrainedPart& part);
  void collect(const Model& model, parallel::Grid& grid);
  void take_from_stages(parallel::Grid& grid);

  std::vector<torch::Tensor> tensors_;                       ///< memory of model_
  std::vector<parallel::FlatOptimizer::WholeState> states_;  ///< memory of optimizer_
  std::vector<std::byte> received_;                          ///< from other workers
  std::vector<run::TensorView> model_;
  std::vector<run::TensorView> optimizer_;
};

/// sha256 over all parameters and buffers with their names.
std::string model_sha256(const CollectedState& state);

/// Writes the model's tensors. `about` becomes the file's metadata.
void save_weights(const std::filesystem::path& path, std::span<const run::TensorView> model,
                  const run::Metadata& about = {});

/// Whether a file must have the weights of all the model's tensors and no others, or those that
/// have the name, type and shape of one of its tensors are taken.
enum class Weights { all, those_that_fit };

/// Loads weights from a file, which messages call `path`. Returns what was not loaded: tensors of
/// the file or of the model, with the reason. Throws BadInput naming the first one with
/// Weights::all, and if nothing fits; the model is then unchanged.
std::vector<std::string> load_weights(const run::Safetensors& file,
                                      const std::filesystem::path& path, Model& model,
                                      Weights which = Weights::all);

/// Copies everything that is needed to resume: weights, buffers, optimizer state, resume point;
/// `about` is added to the metadata. Reuses the memory of `into`.
void capture(const CollectedState& state, const ResumePoint& point, run::Metadata about,
             run::Safetensors& into);

/// Restores a captured state, of which a worker takes the parts of the model that it trains.
/// Messages call it `path`. Throws BadInput if it belongs to another model; then nothing is
/// changed.
ResumePoint restore(const run::Safetensors& state, const std::filesystem::path& path,
                    const Model& model, Step& step);

/// The model's tensors of a captured state.
std::vector<run::TensorView> weights_in(const run::Safetensors& state);

/// All workers get the state of rank 0. Collective.
void broadcast(run::Safetensors& state, World& world);

/// The number of steps that were finished when it was captured.
int64_t step_of(const run::Safetensors& state);

/// Everything that is needed to resume of what this worker trains and all others have, too, in
/// place, to broadcast it to them.
std::vector<parallel::StateTensor> state_tensors(Step& step);

}  // namespace lockstep::train
