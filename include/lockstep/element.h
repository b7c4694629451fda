#pragma once

namespace lockstep {

/// What a tensor's elements are.
enum class Type {
  f32,   ///< float
  f64,   ///< double
  f16,   ///< half precision, IEEE 754
  bf16,  ///< the upper half of a float
  i32,   ///< int32_t
  i64,   ///< int64_t
  u8,    ///< uint8_t
};

/// How the elements of all ranks become one.
enum class Operation {
  sum,   ///< of all ranks'
  mean,  ///< their sum divided by the number of ranks
  min,   ///< the smallest
  max,   ///< the largest
};

}  // namespace lockstep
