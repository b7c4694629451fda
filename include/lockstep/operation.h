#pragma once

namespace lockstep {

/// How numbers of all workers become one.
enum class Operation { sum, mean, min, max };

}  // namespace lockstep
