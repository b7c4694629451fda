#include "collective/benchmark_data.h"

#include <algorithm>
#include <functional>

#include "base/range.h"
#include "collective/fold/half.h"
#include "lockstep/error.h"

namespace lockstep::collective {
namespace {

// Values are below this. bf16 holds whole numbers up to 256 exactly; the largest world has 256
// ranks.
int period_of(Type type) {
  return type == Type::bf16 || type == Type::boolean ? 2 : 8;
}

struct Bf16Bits {
  uint16_t bits;
};
struct F16Bits {
  uint16_t bits;
};

template <typename T>
T from_whole(int value) {
  return static_cast<T>(value);
}
template <>
Bf16Bits from_whole(int value) {
  return {float_to_bf16(static_cast<float>(value))};
}
template <>
F16Bits from_whole(int value) {
  return {float_to_f16(static_cast<float>(value))};
}

bool same(Bf16Bits a, Bf16Bits b) {
  return a.bits == b.bits;
}
bool same(F16Bits a, F16Bits b) {
  return a.bits == b.bits;
}
template <typename T>
bool same(T a, T b) {
  return a == b;
}

// For a mean all ranks have the same number, so that the mean is a whole number too.
int value_of(int rank, int64_t element, Type type, Operation operation) {
  const int64_t shift = operation == Operation::mean ? 0 : 3 * rank;
  return static_cast<int>((element + shift) % period_of(type));
}

// The mean of equal values is that value, unless their sum wraps around.
int mean_of(int value, int world, Type type) {
  if (type == Type::u8) return static_cast<uint8_t>(value * world) / world;
  if (type == Type::i8) return static_cast<int8_t>(value * world) / world;
  return value;
}

int reduced(int64_t element, int world, Type type, Operation operation) {
  int result = value_of(0, element, type, operation);
  if (operation == Operation::mean) return mean_of(result, world, type);
  for (int rank = 1; rank < world; ++rank) {
    const int value = value_of(rank, element, type, operation);
    if (operation == Operation::sum) result += value;
    if (operation == Operation::min) result = std::min(result, value);
    if (operation == Operation::max) result = std::max(result, value);
  }
  return result;
}

using Expected = std::function<int(int64_t element)>;

template <typename T>
void fill_as(Buffer buffer, const Expected& value) {
  auto* const elements = reinterpret_cast<T*>(buffer.data);
  for (int64_t i = 0; i < buffer.count; ++i) elements[i] = from_whole<T>(value(i));
}

template <typename T>
int64_t count_wrong_as(Buffer buffer, Range range, const Expected& value) {
  const auto* const elements = reinterpret_cast<const T*>(buffer.data);
  int64_t wrong = 0;
  for (int64_t i = range.begin; i < range.end; ++i)
    wrong += same(elements[i], from_whole<T>(value(i))) ? 0 : 1;
  return wrong;
}

// Calls `visit` with a value of the type that elements have in memory.
template <typename Visit>
auto with_type(Type type, const Visit& visit) {
  switch (type) {
    case Type::f32:
      return visit(float{});
    case Type::f64:
      return visit(double{});
    case Type::f16:
      return visit(F16Bits{});
    case Type::bf16:
      return visit(Bf16Bits{});
    case Type::i32:
      return visit(int32_t{});
    case Type::i64:
      return visit(int64_t{});
    case Type::u8:
    case Type::boolean:
      return visit(uint8_t{});
    case Type::i8:
      return visit(int8_t{});
    case Type::i16:
      return visit(int16_t{});
  }
  throw Error("no such type");
}

}  // namespace

void fill(Buffer buffer, int rank, Operation operation) {
  with_type(buffer.type, [&](auto element) {
    fill_as<decltype(element)>(
        buffer, [&](int64_t i) { return value_of(rank, i, buffer.type, operation); });
  });
}

int64_t count_wrong(Collective collective, Buffer buffer, int rank, int world,
                    Operation operation) {
  const Range own = slice(buffer.count, world, rank);
  Range range{0, buffer.count};
  std::vector<int> sums;
  const int period = period_of(buffer.type);
  for (int64_t i = 0; i < period; ++i) sums.push_back(reduced(i, world, buffer.type, operation));
  Expected expected = [&](int64_t i) { return sums[static_cast<size_t>(i % period)]; };
  const Expected of_root = [&](int64_t i) { return value_of(0, i, buffer.type, operation); };
  int owner = 0;
  const Expected of_owner = [&](int64_t i) {
    while (slice(buffer.count, world, owner).end <= i) ++owner;
    return value_of(owner, i, buffer.type, operation);
  };
  // Slice p is slice `rank` of rank p.
  const Expected to_this_rank = [&](int64_t i) {
    while (slice(buffer.count, world, owner).end <= i) ++owner;
    return value_of(owner, own.begin + i - slice(buffer.count, world, owner).begin, buffer.type,
                    operation);
  };
  switch (collective) {
    case Collective::all_reduce:
      break;
    case Collective::reduce:
      if (rank != 0) range = {};
      break;
    case Collective::reduce_scatter:
      range = own;
      break;
    case Collective::broadcast:
      expected = of_root;
      break;
    case Collective::scatter:
      range = own;
      expected = of_root;
      break;
    case Collective::gather:
      if (rank != 0) range = {};
      expected = of_owner;
      break;
    case Collective::all_gather:
      expected = of_owner;
      break;
    case Collective::all_to_all:
      expected = to_this_rank;
      break;
    case Collective::exchange:
      expected = [&](int64_t i) {
        return value_of((rank + world - 1) % world, i, buffer.type, operation);
      };
      break;
    case Collective::send_receive:
      if (rank != 1) range = {};
      expected = of_root;
      break;
    case Collective::barrier:
      range = {};
      break;
  }
  return with_type(buffer.type, [&](auto element) {
    return count_wrong_as<decltype(element)>(buffer, range, expected);
  });
}

}  // namespace lockstep::collective
