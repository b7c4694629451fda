#pragma once

#include <string>

namespace lockstep::collective {

/// What a collective is for: bytes are counted by kind, and messages name it.
struct Cargo {
  enum class Kind { gradients, buffers, other };

  Kind kind = Kind::other;
  int bucket = -1;  ///< of the gradients

  /// "gradient bucket 3"; nothing for what has no name.
  std::string text() const {
    if (kind == Kind::gradients) return "gradient bucket " + std::to_string(bucket);
    return kind == Kind::buffers ? "the model's buffers" : "";
  }
};

}  // namespace lockstep::collective
