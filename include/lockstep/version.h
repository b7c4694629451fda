#pragma once

#include <torch/version.h>

/// The version of Lockstep; CMakeLists.txt reads it from here.
#define LOCKSTEP_VERSION "0.2.0"

#define LOCKSTEP_QUOTED(value) #value
#define LOCKSTEP_TEXT_OF(value) LOCKSTEP_QUOTED(value)

/// What a plugin must have been built against to be loaded.
#define LOCKSTEP_BUILD                                     \
  "Lockstep " LOCKSTEP_VERSION ", LibTorch " TORCH_VERSION \
  ", C++11 ABI " LOCKSTEP_TEXT_OF(_GLIBCXX_USE_CXX11_ABI)
