#pragma once

#include <torch/version.h>

/// The version of Lockstep; CMakeLists.txt reads it from here.
#define LOCKSTEP_VERSION "0.3.0"

/// A macro's value as text.
#define LOCKSTEP_QUOTED(value) #value
/// The same, after macro expansion.
#define LOCKSTEP_TEXT_OF(value) LOCKSTEP_QUOTED(value)

/// A plugin can be loaded only if it was built with the same value.
#define LOCKSTEP_BUILD                                     \
  "Lockstep " LOCKSTEP_VERSION ", LibTorch " TORCH_VERSION \
  ", C++11 ABI " LOCKSTEP_TEXT_OF(_GLIBCXX_USE_CXX11_ABI)
