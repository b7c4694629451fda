#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/state.h"

namespace lockstep::train {

/// The folder of a run's checkpoints, `step-00001200.safetensors` and the one before it.
class Checkpoints {
 public:
  explicit Checkpoints(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Writes what was captured at `step`, then removes all but the newest two. Throws BadInput when
  /// the disk is full; the ones before stay valid.
  std::filesystem::path save(const Safetensors& state, int64_t step) const;

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
