// An element type says how it is stored and how it widens to what is computed in; an operation
// combines two wide values and commutes, zeros with signs included, so that either of two ranks may
// call its own value the first.
#include "collective/fold/kernels.h"

#include <bit>
#include <type_traits>

#include "base/processor.h"
#include "collective/fold/half.h"

namespace lockstep::collective {
namespace {

template <typename T>
struct Plain {
  using Stored = T;
  using Wide = T;
  [[gnu::always_inline]] static T widen(T value) { return value; }
  [[gnu::always_inline]] static T narrow(T value) { return value; }
};

struct Bf16 {
  using Stored = uint16_t;
  using Wide = float;
  [[gnu::always_inline]] static float widen(uint16_t value) { return bf16_to_float(value); }
  [[gnu::always_inline]] static uint16_t narrow(float value) { return float_to_bf16(value); }
};

struct F16 {
  using Stored = uint16_t;
  using Wide = float;
  [[gnu::always_inline]] static float widen(uint16_t value) { return f16_to_float(value); }
  [[gnu::always_inline]] static uint16_t narrow(float value) { return float_to_f16(value); }
};

struct Sum {
  template <typename T>
  [[gnu::always_inline]] static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;  // wraps around instead of being undefined
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  }
};

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

struct Min {
  template <typename T>
  [[gnu::always_inline]] static T of(T a, T b) {
    const T less = ((a < b) | (a != a)) ? a : b;
    if constexpr (std::is_integral_v<T>) {
      return less;
    } else {
      // Equal numbers have equal bits, but for zeros: one with a sign is the smaller.
      const T equal = std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) | std::bit_cast<BitsOf<T>>(b));
      return a == b ? equal : less;
    }
  }
};

struct Max {
  template <typename T>
  [[gnu::always_inline]] static T of(T a, T b) {
    const T more = ((a > b) | (a != a)) ? a : b;
    if constexpr (std::is_integral_v<T>) {
      return more;
    } else {
      const T equal = std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) & std::bit_cast<BitsOf<T>>(b));
      return a == b ? equal : more;
    }
  }
};

template <typename Element>
size_t count_in(size_t bytes) {
  return bytes / sizeof(typename Element::Stored);
}

template <typename Element, typename Op>
[[gnu::always_inline]] inline void join_loop(std::byte* out, const std::byte* a, const std::byte* b,
                                             size_t bytes) {
  using Stored = typename Element::Stored;
  auto* to = reinterpret_cast<Stored*>(out);
  const auto* left = reinterpret_cast<const Stored*>(a);
  const auto* right = reinterpret_cast<const Stored*>(b);
  const size_t count = count_in<Element>(bytes);
  INDEPENDENT_ITERATIONS
  for (size_t i = 0; i < count; ++i)
    to[i] = Element::narrow(Op::of(Element::widen(left[i]), Element::widen(right[i])));
}

template <typename Element>
[[gnu::always_inline]] inline void divide_loop(std::byte* data, size_t bytes, int64_t n) {
  using Stored = typename Element::Stored;
  using Wide = typename Element::Wide;
  auto* values = reinterpret_cast<Stored*>(data);
  const size_t count = count_in<Element>(bytes);
  if constexpr (std::is_integral_v<Wide>) {
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<Stored>(values[i] / n);
  } else {
    const Wide by = static_cast<Wide>(n);
    for (size_t i = 0; i < count; ++i) values[i] = Element::narrow(Element::widen(values[i]) / by);
  }
}

struct Portable {
  template <typename Element, typename Op>
  static void join(std::byte* out, const std::byte* a, const std::byte* b, size_t bytes) {
    join_loop<Element, Op>(out, a, b, bytes);
  }
  template <typename Element>
  static void divide(std::byte* data, size_t bytes, int64_t n) {
    divide_loop<Element>(data, bytes, n);
  }
};

#ifdef __x86_64__

// Compilers do not find these conversions by themselves: eight 16-bit floats a time.
constexpr size_t kGroup = 64;

template <typename Element>
FOR_WIDE_REGISTERS void widen_group(float* to, const std::byte* from) {
  for (size_t i = 0; i < kGroup; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * 2));
    if constexpr (std::is_same_v<Element, F16>) {
      _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
    } else {
      const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
      _mm256_storeu_ps(to + i, _mm256_castsi256_ps(bits));
    }
  }
}

// float_to_bf16, eight a time.
FOR_WIDE_REGISTERS [[gnu::always_inline]] inline __m128i narrow_to_bf16(__m256 values) {
  const __m256i bits = _mm256_castps_si256(values);
  const __m256i upper = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16);
  const __m256i nan = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
  const __m256i halves = _mm256_blendv_epi8(rounded, nan, is_nan);
  return _mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
}

template <typename Element>
FOR_WIDE_REGISTERS void narrow_group(std::byte* to, const float* from) {
  for (size_t i = 0; i < kGroup; i += 8) {
    const __m256 values = _mm256_loadu_ps(from + i);
    auto* halves = reinterpret_cast<__m128i*>(to + i * 2);
    if constexpr (std::is_same_v<Element, F16>)
      _mm_storeu_si128(halves, _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
    else
      _mm_storeu_si128(halves, narrow_to_bf16(values));
  }
}

struct WideRegisters {
  template <typename Element, typename Op>
  FOR_WIDE_REGISTERS static void join(std::byte* out, const std::byte* a, const std::byte* b,
                                      size_t bytes) {
    size_t done = 0;
    if constexpr (std::is_same_v<Element, F16> || std::is_same_v<Element, Bf16>) {
      alignas(32) float left[kGroup];
      alignas(32) float right[kGroup];
      for (; done + kGroup * 2 <= bytes; done += kGroup * 2) {
        widen_group<Element>(left, a + done);
        widen_group<Element>(right, b + done);
        for (size_t i = 0; i < kGroup; ++i) left[i] = Op::of(left[i], right[i]);
        narrow_group<Element>(out + done, left);
      }
    }
    join_loop<Element, Op>(out + done, a + done, b + done, bytes - done);
  }
  template <typename Element>
  FOR_WIDE_REGISTERS static void divide(std::byte* data, size_t bytes, int64_t n) {
    divide_loop<Element>(data, bytes, n);
  }
};

#else

using WideRegisters = Portable;

#endif

template <typename Compiled, typename Element, typename Op>
void combine(std::byte* into, const std::byte* from, size_t bytes) {
  Compiled::template join<Element, Op>(into, into, from, bytes);
}

template <typename Compiled, typename Element>
FoldKernels of_element(Operation operation) {
  const auto with = [](auto op) {
    using Op = decltype(op);
    return FoldKernels{&Compiled::template join<Element, Op>, &combine<Compiled, Element, Op>,
                       &Compiled::template divide<Element>};
  };
  if (operation == Operation::min) return with(Min());
  if (operation == Operation::max) return with(Max());
  return with(Sum());
}

template <typename Compiled>
FoldKernels of_type(Type type, Operation operation) {
  switch (type) {
    case Type::f32:
      return of_element<Compiled, Plain<float>>(operation);
    case Type::f64:
      return of_element<Compiled, Plain<double>>(operation);
    case Type::f16:
      return of_element<Compiled, F16>(operation);
    case Type::bf16:
      return of_element<Compiled, Bf16>(operation);
    case Type::i32:
      return of_element<Compiled, Plain<int32_t>>(operation);
    case Type::i64:
      return of_element<Compiled, Plain<int64_t>>(operation);
    case Type::u8:
    case Type::boolean:
      return of_element<Compiled, Plain<uint8_t>>(operation);
    case Type::i8:
      return of_element<Compiled, Plain<int8_t>>(operation);
    case Type::i16:
      return of_element<Compiled, Plain<int16_t>>(operation);
  }
  __builtin_unreachable();
}

}  // namespace

FoldKernels kernels(Type type, Operation operation, Instructions instructions) {
  const bool wide = instructions == Instructions::best && has_wide_registers();
  return wide ? of_type<WideRegisters>(type, operation) : of_type<Portable>(type, operation);
}

}  // namespace lockstep::collective
