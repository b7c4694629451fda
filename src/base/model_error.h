#pragma once

#include "lockstep/error.h"

namespace lockstep {

/// What the functions of a model or an objective, which may be a user's, threw: other samples,
/// fewer or more of them, or another precision may do. Neither a lack of memory nor what Lockstep
/// itself finds wrong with them is one.
class ModelError : public Error {
 public:
  using Error::Error;
};

}  // namespace lockstep
