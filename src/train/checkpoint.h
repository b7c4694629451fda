#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/model.h"
#include "observe/spans.h"
#include "optim/optimizer.h"
#include "train/flat_parameters.h"
#include "train/safetensors.h"
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

/// Where a run stands, apart from its tensors. Sampler position and random streams follow from
/// `step`.
struct Position {
  int64_t step = 0;     ///< steps finished
  Totals epoch_so_far;  ///< of the epoch that is under way
  Totals last_epoch;    ///< of the last whole one
  TimeSpent spent;
  std::string data_sha256;  ///< what it was trained on
};

std::string to_text(const Position& position);
/// Throws nlohmann::json::exception for what `to_text` did not write.
Position position_from_text(const std::string& text);

/// sha256 of all parameters and buffers with their names: equal digests, equal models.
std::string model_sha256(const model::Model& model);

/// The model alone, with PyTorch's state-dict names. `about` goes into the file's metadata.
void save_weights(const std::filesystem::path& path, const model::Model& model,
                  const Metadata& about = {});

/// Throws BadInput naming the first tensor that is missing, too many or of another shape; the model
/// is then untouched.
void load_weights(const std::filesystem::path& path, model::Model& model);

/// The folder of a run's checkpoints, `step-00001200.safetensors` and the one before it.
class Checkpoints {
 public:
  explicit Checkpoints(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Writes one, then removes all but the newest two. Throws BadInput when the disk is full; the
  /// ones before stay valid.
  std::filesystem::path save(const model::Model& model, Step& step, const Position& position);

  struct Loaded {
    std::filesystem::path path;
    Position position;
    std::vector<std::string> warnings;  ///< newer files that are torn
  };

  /// Loads the newest whole one; nothing when there is none at all. Throws BadInput when it belongs
  /// to another model or none is whole.
  std::optional<Loaded> load_newest(model::Model& model, Step& step) const;

 private:
  std::vector<std::filesystem::path> newest_first() const;
  /// What a killed process was writing.
  void remove_leftovers() const;

  std::filesystem::path folder_;
};

}  // namespace lockstep::train
