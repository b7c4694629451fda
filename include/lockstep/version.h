#pragma once

#include <torch/version.h>

/// The version of Lockstep; CMakeLists.txt reads it from here.
#define LOCKSTEP_VERSION "0.3.0"

/// A macro's value as text.
#define LOCKSTEP_QUOTED(value) #value
/// The same, after the macro was replaced.
#define LOCKSTEP_TEXT_OF(value) LOCKSTEP_QUOTED(value)

/// What a plugin must have been built against to be loaded.
#define LOCKSTEP_BUILD                                     \
  "Lockstep " LOCKSTEP_VERSION ", LibTorch " TORCH_VERSION \
  ", C++11 ABI " LOCKSTEP_TEXT_OF(_GLIBCXX_USE_CXX11_ABI)
