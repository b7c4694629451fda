#pragma once

namespace lockstep {

/// What a tensor's elements are.
enum class Type { f32, f64, f16, bf16, i32, i64, u8 };

/// How the elements of all ranks become one.
enum class Operation { sum, mean, min, max };

}  // namespace lockstep
