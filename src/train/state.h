#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/model.h"
#include "objective/scorecard.h"
#include "observe/spans.h"
#include "parallel/flat_state.h"
#include "run/safetensors.h"
#include "train/step.h"

namespace lockstep::train {

/// Where a run's time went, over all resumes.
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

/// Where a run can go on from, apart from its tensors. Sampler position and random streams follow
/// from `step`.
struct ResumePoint {
  int64_t step = 0;     ///< steps finished
  int64_t settled = 0;  ///< steps after which all is done that was due: evaluation, checkpoint
  objective::Totals epoch_so_far;  ///< of the epoch that is under way
  objective::Totals last_epoch;    ///< of the last whole one
  TimeSpent spent;
  std::string data_sha256;  ///< what it was trained on
};

std::string to_text(const ResumePoint& point);
/// Throws nlohmann::json::exception for what `to_text` did not write.
ResumePoint resume_point_from(const std::string& text);

/// sha256 of all parameters and buffers with their names: equal digests, equal models.
std::string model_sha256(const Model& model);

/// The model alone, with PyTorch's state-dict names. `about` goes into the file's metadata.
void save_weights(const std::filesystem::path& path, const Model& model,
                  const run::Metadata& about = {});

/// Throws BadInput naming the first tensor that is missing, too many or of another shape; the model
/// is then untouched.
void load_weights(const std::filesystem::path& path, Model& model);

/// A copy of everything that a run needs to go on: weights, buffers, optimizer state, resume point.
/// Takes the memory of `into` where that is of the same size.
void capture(const Model& model, Step& step, const ResumePoint& point, run::Safetensors& into);

/// Puts it back. `path` is what messages call it. Throws BadInput where it belongs to another
/// model; nothing has changed then.
ResumePoint restore(const run::Safetensors& state, const std::filesystem::path& path, Model& model,
                    Step& step);

/// How many steps were finished when it was captured.
int64_t step_of(const run::Safetensors& state);

/// The same tensors as `capture` takes, in place: for giving them to other workers.
std::vector<parallel::StateTensor> state_tensors(const Model& model, Step& step);

}  // namespace lockstep::train
