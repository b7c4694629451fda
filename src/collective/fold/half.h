#pragma once

#include <bit>
#include <cstdint>

namespace lockstep::collective {

/// Conversions of 16-bit floats to float and back, rounded to nearest even. A NaN stays a NaN, with
/// the upper bits of its payload, as in the processor's own conversion. There are no branches,
/// which would keep a loop from being vectorized, and no arithmetic on denormals, so that flushing
/// those to zero changes nothing.
[[gnu::always_inline]] inline float bf16_to_float(uint16_t half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

[[gnu::always_inline]] inline uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

[[gnu::always_inline]] inline float f16_to_float(uint16_t half) {
  const uint32_t size = half & 0x7fffU;
  const uint32_t sign = (half & 0x8000U) << 16;
  const uint32_t normal = (size << 13) + (112U << 23);
  const uint32_t infinite = ((size << 13) | 0x7f800000) | (size > 0x7c00 ? 0x400000U : 0U);
  // 0.5 has 2^-24 as its last place, which is f16's smallest denormal.
  const auto tiny = std::bit_cast<uint32_t>(std::bit_cast<float>(size | 0x3f000000) - 0.5F);
  const uint32_t bits = size >= 0x7c00 ? infinite : size >= 0x400 ? normal : tiny;
  return std::bit_cast<float>(bits | sign);
}

[[gnu::always_inline]] inline uint16_t float_to_f16(float value) {
  const auto all = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (all >> 16) & 0x8000;
  const uint32_t bits = all & 0x7fffffff;
  const uint32_t normal = (bits - (112U << 23) + 0xfff + ((bits >> 13) & 1)) >> 13;
  const uint32_t tiny = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + 0.5F) - 0x3f000000;
  const uint32_t infinite = bits > 0x7f800000 ? 0x7e00 | ((bits >> 13) & 0x3ff) : 0x7c00;
  const uint32_t half = bits >= (143U << 23) ? infinite : bits >= (113U << 23) ? normal : tiny;
  return static_cast<uint16_t>(half | sign);
}

}  // namespace lockstep::collective
