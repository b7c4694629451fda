#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/batch.h"

namespace lockstep::parallel {

/// Notices which tensors are changed in place after it was made.
class ChangesInPlace {
 public:
  explicit ChangesInPlace(const Tensors& tensors);
  /// The name of a tensor that has been changed.
  std::optional<std::string> found() const;

 private:
  Tensors tensors_;
  std::vector<int64_t> versions_;
};

}  // namespace lockstep::parallel
