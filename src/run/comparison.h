#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::run {

/// Why two runs do, or do not, have the same result.
struct Comparison {
  /// Inputs that differ: recipe keys, the data's digest, versions. "train.seed: 1 in A, 2 in B".
  std::vector<std::string> causes;

  /// Where the models diverge: the first step for which both runs logged digests that differ, and
  /// the tensors that differ. `last_equal_step` is the last one before it without differences.
  struct Parting {
    std::optional<int64_t> last_equal_step;
    int64_t step = 0;
    std::vector<std::string> tensors;
  };
  std::optional<Parting> parting;

  /// The first step with different losses, of those that both logged.
  std::optional<int64_t> first_other_loss;

  /// The number of steps for which both logged digests.
  int64_t digests_compared = 0;

  enum class Result { same, other, unfinished };
  Result result = Result::unfinished;

  /// Whether the results, or anything that both logged, differ.
  bool differ() const { return result == Result::other || parting || first_other_loss; }
};

/// Compares run `b` with run `a`. Throws BadInput if a folder contains no run.
Comparison compare_runs(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace lockstep::run
