#pragma once

namespace lockstep {

/// Element types.
enum class Type {
  f32,      ///< float
  f64,      ///< double
  f16,      ///< half precision (IEEE 754)
  bf16,     ///< bfloat16
  i32,      ///< int32_t
  i64,      ///< int64_t
  u8,       ///< uint8_t
  i8,       ///< int8_t
  i16,      ///< int16_t
  boolean,  ///< bool; reduced by min (all) and max (any) only
};

/// How a reduction combines the elements of all ranks.
enum class Operation {
  sum,   ///< sum of all
  mean,  ///< sum divided by the number of ranks; of integers rounded towards 0, and the sum must
         ///< fit
  min,   ///< the smallest
  max,   ///< the largest
};

}  // namespace lockstep
