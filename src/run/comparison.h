#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::run {

/// Why two runs do, or do not, have the same result.
struct Comparison {
  /// What went in and differs: recipe keys, the data's digest, versions. "train.seed: 2, was 1".
  std::vector<std::string> causes;

  /// Where the models part: the first step at which both logged digests that differ, and which
  /// tensors did. `last_equal_step` is the one before, at which nothing did.
  struct Parting {
    std::optional<int64_t> last_equal_step;
    int64_t step = 0;
    std::vector<std::string> tensors;
  };
  std::optional<Parting> parting;

  /// The first step whose loss differs, of those both logged.
  std::optional<int64_t> first_other_loss;

  /// At how many steps both logged digests.
  int64_t digests_compared = 0;

  enum class Result { same, other, unfinished };
  Result result = Result::unfinished;

  /// Whether the results differ, or anything that both logged on the way.
  bool differ() const { return result == Result::other || parting || first_other_loss; }
};

/// Compares run `b` with run `a`. Throws BadInput where a folder holds no run.
Comparison compare_runs(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace lockstep::run
