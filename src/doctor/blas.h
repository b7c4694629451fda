#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/finding.h"

namespace lockstep::doctor {

/// A variable that sets a number of threads, as it is set.
struct ThreadVariable {
  std::string name;
  std::string value;
};

/// The library that computes LibTorch's matrix products, and its threads.
struct BlasFacts {
  bool was_asked = false;  ///< liblockstep was loaded
  std::string file;        ///< that has LibTorch's sgemm_; empty: LibTorch contains it itself
  std::string name;        ///< "OpenBLAS", "reference BLAS", ...; empty: not known
  std::string about;       ///< its own description
  std::string core;        ///< the processor for which OpenBLAS computes: "Haswell"
  std::optional<int> threads;
  /// Whether it starts threads of its own beside OpenMP's, which LibTorch uses.
  bool has_own_threads = false;
  std::vector<ThreadVariable> variables;
  int usable_cores = 1;
  std::vector<std::string> instruction_sets;  ///< of the processor
};

std::vector<Finding> judge(const BlasFacts& facts);

}  // namespace lockstep::doctor
