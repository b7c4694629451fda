#include "collective/fold/fold.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>

#include "base/digest.h"
#include "collective/fold/half.h"
#include "collective/plan/shards.h"
#include "expect_error.h"

namespace lockstep::collective {
namespace {

constexpr Type kTypes[] = {Type::f32, Type::f64, Type::f16, Type::bf16,
                           Type::i32, Type::i64, Type::u8};
constexpr Operation kOperations[] = {Operation::sum, Operation::mean, Operation::min,
                                     Operation::max};
constexpr Instructions kInstructions[] = {Instructions::best, Instructions::portable};
constexpr size_t kCounts[] = {0, 1, 7, 31, 64, 65, 1000, 1023, 3001};

using Bytes = std::vector<std::byte>;

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// Elements as the reference computes with them: a double holds those of every type but i64.
double read(Type type, const std::byte* from) {
  switch (type) {
    case Type::f32:
      return load<float>(from);
    case Type::f64:
      return load<double>(from);
    case Type::f16:
      return f16_to_float(load<uint16_t>(from));
    case Type::bf16:
      return bf16_to_float(load<uint16_t>(from));
    case Type::i32:
      return load<int32_t>(from);
    case Type::i64:
      return static_cast<double>(load<int64_t>(from));
    case Type::u8:
      return load<uint8_t>(from);
  }
  return 0;
}

void write(Type type, std::byte* to, double value) {
  switch (type) {
    case Type::f32:
      return store(to, static_cast<float>(value));
    case Type::f64:
      return store(to, value);
    case Type::f16:
      return store(to, float_to_f16(static_cast<float>(value)));
    case Type::bf16:
      return store(to, float_to_bf16(static_cast<float>(value)));
    case Type::i32:
      return store(to, static_cast<int32_t>(value));
    case Type::i64:
      return store(to, static_cast<int64_t>(value));
    case Type::u8:
      return store(to, static_cast<uint8_t>(value));
  }
}

// A value that the type can hold, also the sum of 13 of them.
double in_range(Type type, double value) {
  if (type == Type::u8) return std::min(std::round(std::abs(value) / 10), 19.0);
  return type == Type::i32 || type == Type::i64 ? std::round(value) : value;
}

Bytes random_elements(Type type, size_t count, int seed) {
  std::mt19937 generator(static_cast<unsigned>(seed));
  std::normal_distribution<double> normal(0, 100);
  Bytes bytes(count * bytes_of(type));
  for (size_t i = 0; i < count; ++i) {
    const double value = in_range(type, normal(generator));
    write(type, bytes.data() + i * bytes_of(type), value);
  }
  return bytes;
}

double apply(Operation operation, double a, double b) {
  if (operation == Operation::min) return a < b ? a : b;
  if (operation == Operation::max) return a > b ? a : b;
  return a + b;
}

// One element at a time; sums of f16, bf16 and f32 in double and then rounded are rounded right.
Bytes reference(Type type, Operation operation, const Bytes& a, const Bytes& b) {
  Bytes result(a.size());
  for (size_t i = 0; i < a.size(); i += bytes_of(type))
    write(type, &result[i], apply(operation, read(type, &a[i]), read(type, &b[i])));
  return result;
}

Bytes divided(Type type, const Bytes& a, int64_t n) {
  Bytes result(a.size());
  for (size_t i = 0; i < a.size(); i += bytes_of(type))
    write(type, &result[i], read(type, &a[i]) / static_cast<double>(n));
  return result;
}

struct Tree {
  Type type;
  Operation operation;
  const std::vector<Bytes>& shards;

  Bytes sum(int64_t begin, int64_t end) const {
    if (end - begin == 1) return shards[static_cast<size_t>(begin)];
    const int64_t half = middle(begin, end);
    return reference(type, operation, sum(begin, half), sum(half, end));
  }
};

std::vector<Bytes> random_vectors(Type type, size_t vectors, size_t count) {
  std::vector<Bytes> result;
  for (size_t k = 0; k < vectors; ++k)
    result.push_back(random_elements(type, count, static_cast<int>(k)));
  return result;
}

std::vector<std::byte*> pointers(std::vector<Bytes>& vectors) {
  std::vector<std::byte*> result;
  for (Bytes& vector : vectors) result.push_back(vector.data());
  return result;
}

// In place: every term is also a result.
void fold_in_place(std::vector<Bytes>& vectors, const std::vector<int64_t>& widths, Type type,
                   Operation operation, int64_t divide_by, Instructions instructions) {
  const auto results = pointers(vectors);
  const std::vector<const std::byte*> terms(results.begin(), results.end());
  fold_tree({terms, widths, results, vectors[0].size(), type, operation, divide_by, instructions});
}

TEST(Element, IsNamedAndParsed) {
  for (const Type type : kTypes) EXPECT_EQ(parse_type(name_of(type)), type);
  for (const Operation operation : kOperations)
    EXPECT_EQ(parse_operation(name_of(operation)), operation);
  EXPECT_EQ(bytes_of(Type::bf16), 2U);
  EXPECT_EQ(bytes_of(Type::i64), 8U);
  EXPECT_EQ(bytes_of(Type::u8), 1U);
  expect_bad_input([] { parse_type("fp32"); }, {"'fp32': no such type"});
  expect_bad_input([] { parse_operation("maximum"); }, {"there are: sum, mean, min, max"});
}

TEST(Combiner, EqualsOneElementAtATimeForEveryTypeAndOperation) {
  for (const Type type : kTypes)
    for (const Operation operation : kOperations)
      for (const Instructions instructions : kInstructions)
        for (const size_t count : kCounts) {
          Bytes into = random_elements(type, count, 1);
          const Bytes from = random_elements(type, count, 2);
          const Bytes expected = reference(type, operation, into, from);
          combiner(type, operation, instructions)(into.data(), from.data(), into.size());
          EXPECT_EQ(into, expected) << name_of(type) << ' ' << name_of(operation) << ' ' << count;
        }
}

TEST(Combiner, TakesMemoryAlignedToAnElementOnly) {
  for (const Type type : kTypes)
    for (const size_t offset : {1, 3, 5}) {
      const size_t begin = offset * bytes_of(type);
      Bytes into = random_elements(type, 300, 1);
      const Bytes from = random_elements(type, 300, 2);
      Bytes expected = into;
      const Bytes sums = reference(type, Operation::sum, Bytes(into.begin() + begin, into.end()),
                                   Bytes(from.begin(), from.end() - begin));
      std::copy(sums.begin(), sums.end(), expected.begin() + begin);
      combiner(type, Operation::sum)(into.data() + begin, from.data(), into.size() - begin);
      EXPECT_EQ(into, expected) << name_of(type) << ' ' << offset;
    }
}

TEST(Combiner, KeepsNaNOnEitherSide) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Type type : {Type::f32, Type::f64, Type::f16, Type::bf16})
    for (const Operation operation : kOperations)
      for (const Instructions instructions : kInstructions) {
        Bytes into = random_elements(type, 100, 1);
        Bytes from = random_elements(type, 100, 2);
        const size_t size = bytes_of(type);
        write(type, &into[10 * size], nan);
        write(type, &from[20 * size], nan);
        combiner(type, operation, instructions)(into.data(), from.data(), into.size());
        for (size_t i = 0; i < 100; ++i)
          EXPECT_EQ(std::isnan(read(type, &into[i * size])), i == 10 || i == 20)
              << name_of(type) << ' ' << name_of(operation) << ' ' << i;
      }
}

TEST(Combiner, GivesTheSameZeroWhicheverRankComesFirst) {
  for (const Type type : {Type::f32, Type::f64, Type::f16, Type::bf16})
    for (const Operation operation : {Operation::min, Operation::max})
      for (const double first : {0.0, -0.0}) {
        Bytes into(8);
        Bytes from(8);
        write(type, into.data(), first);
        write(type, from.data(), -first);
        combiner(type, operation)(into.data(), from.data(), bytes_of(type));
        EXPECT_EQ(std::signbit(read(type, into.data())), operation == Operation::min);
      }
}

TEST(Combiner, WrapsBytesAround) {
  for (const Instructions instructions : kInstructions) {
    Bytes into(100, std::byte{200});
    const Bytes from(100, std::byte{100});
    combiner(Type::u8, Operation::sum, instructions)(into.data(), from.data(), into.size());
    EXPECT_EQ(into, Bytes(100, std::byte{44}));
  }
}

TEST(Combiner, ComparesBytesWithoutASign) {
  for (const Instructions instructions : kInstructions)
    for (const Operation operation : {Operation::min, Operation::max}) {
      Bytes into(100, std::byte{200});
      const Bytes from(100, std::byte{100});
      combiner(Type::u8, operation, instructions)(into.data(), from.data(), into.size());
      EXPECT_EQ(into, Bytes(100, operation == Operation::min ? std::byte{100} : std::byte{200}));
    }
}

TEST(Combiner, WrapsIntegersAround) {
  int32_t into = std::numeric_limits<int32_t>::max();
  const int32_t one = 1;
  combiner(Type::i32, Operation::sum)(reinterpret_cast<std::byte*>(&into),
                                      reinterpret_cast<const std::byte*>(&one), sizeof into);
  EXPECT_EQ(into, std::numeric_limits<int32_t>::min());
}

TEST(Half, RoundsTiesToEven) {
  EXPECT_EQ(float_to_bf16(1.00390625F), 0x3f80);  // 1 + half a last place: down to even
  EXPECT_EQ(float_to_bf16(1.01171875F), 0x3f82);  // 1 + one and a half: up to even
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_f16(1.00048828125F), 0x3c00);
  EXPECT_EQ(float_to_f16(1.00146484375F), 0x3c02);
  EXPECT_EQ(float_to_f16(65519.0F), 0x7bff);
  EXPECT_EQ(float_to_f16(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_f16(0x1p-25F), 0x0000);
  EXPECT_EQ(float_to_f16(0x1.8p-24F), 0x0002);
  EXPECT_EQ(float_to_f16(-0x1p-24F), 0x8001);
}

TEST(Half, ComesBackFromFloatUnchanged) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const bool f16_signals = (bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0;
    EXPECT_EQ(float_to_f16(f16_to_float(half)), f16_signals ? half | 0x200 : half);
    const bool bf16_signals = (bits & 0x7f80) == 0x7f80 && (bits & 0x7f) != 0;
    EXPECT_EQ(float_to_bf16(bf16_to_float(half)), bf16_signals ? half | 0x40 : half);
  }
}

TEST(Half, AddsToTheSameBitsWithAndWithoutWideInstructions) {
  for (const Type type : {Type::f16, Type::bf16})
    for (uint32_t step : {1U, 0x3ffU, 0x1357U, 0x8001U}) {
      Bytes best(0x10000 * 2);
      Bytes from(0x10000 * 2);
      for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        store(&best[bits * 2], static_cast<uint16_t>(bits));
        const double other = read(type, &best[bits * 2]);
        // Two NaNs keep either's payload, as the processor likes.
        store(&from[bits * 2], static_cast<uint16_t>(std::isnan(other) ? 0 : bits * step + step));
      }
      Bytes portable = best;
      combiner(type, Operation::sum)(best.data(), from.data(), best.size());
      combiner(type, Operation::sum, Instructions::portable)(portable.data(), from.data(),
                                                             from.size());
      EXPECT_EQ(best, portable) << name_of(type) << ' ' << step;
    }
}

TEST(Divider, DividesRatherThanMultiplies) {
  for (const Type type : kTypes)
    for (const Instructions instructions : kInstructions)
      for (const int64_t n : {2, 3, 7}) {
        Bytes data = random_elements(type, 333, 5);
        const Bytes expected = divided(type, data, n);
        divider(type, instructions)(data.data(), data.size(), n);
        EXPECT_EQ(data, expected) << name_of(type) << " / " << n;
      }
}

TEST(FoldTree, AddsAlongTheCanonicalTreeInPlace) {
  for (const Type type : kTypes)
    for (const Operation operation : kOperations)
      for (const size_t terms : {1, 2, 3, 4, 5, 8, 13})
        for (const Instructions instructions : kInstructions) {
          std::vector<Bytes> vectors = random_vectors(type, terms, 1731);
          const Tree tree{type, operation, vectors};
          const int64_t by = operation == Operation::mean ? static_cast<int64_t>(terms) : 1;
          const Bytes expected = divided(type, tree.sum(0, static_cast<int64_t>(terms)), by);
          fold_in_place(vectors, {}, type, operation, by, instructions);
          for (const Bytes& vector : vectors)
            EXPECT_EQ(vector, expected)
                << name_of(type) << ' ' << name_of(operation) << ' ' << terms;
        }
}

TEST(FoldTree, GivesTheBitsOfTheShardsWhenTermsAreNodes) {
  const std::vector<std::vector<int64_t>> all_widths = {{4, 4},    {4, 3},       {1, 1, 2, 4},
                                                        {2, 1, 1}, {4, 2, 1, 1}, {2, 2, 2, 2},
                                                        {1, 1, 2}, {8, 2, 1},    {2, 2, 2, 2, 1}};
  for (const auto& widths : all_widths) {
    int64_t shards = 0;
    for (const int64_t width : widths) shards += width;
    const auto vectors = random_vectors(Type::f32, static_cast<size_t>(shards), 2000);
    const Tree tree{Type::f32, Operation::sum, vectors};
    std::vector<Bytes> terms;
    int64_t begin = 0;
    for (const int64_t width : widths) {
      terms.push_back(tree.sum(begin, begin + width));
      begin += width;
    }
    fold_in_place(terms, widths, Type::f32, Operation::sum, 1, Instructions::best);
    for (const Bytes& term : terms)
      EXPECT_EQ(term, tree.sum(0, shards)) << fmt::format("{}", fmt::join(widths, ","));
  }
}

// Computed with AVX2 on x86-64, and one number at a time on arm64.
TEST(FoldTree, GivesTheSameBitsOnEveryProcessor) {
  const std::map<Type, std::string> digests = {
      {Type::f32, "65ca23cae1958cb1ba81adc1c68c82d3eaa9e71af0d3601c3b0ea1f65c22e3f3"},
      {Type::f64, "870a8a6d6b0ee50ce2b4b05a25f7d25468095a6daf7b1c33ee6f1917c09cf180"},
      {Type::f16, "0dda4868353086d48c4bd67875558f9e4865d2f33994cca6e8dcd2554a4592ce"},
      {Type::bf16, "fd4390286dad152d0ec3e9f71c0a9a078a6c31856bdaa537b95fc14564fb5939"},
  };
  for (const auto& [type, expected] : digests)
    for (const Instructions instructions : kInstructions) {
      std::mt19937 generator(7);
      std::vector<Bytes> vectors(5, Bytes(1003 * bytes_of(type)));
      for (Bytes& vector : vectors)
        for (size_t i = 0; i < vector.size(); i += bytes_of(type))
          write(type, &vector[i], static_cast<int32_t>(generator()) * 0x1p-30);
      fold_in_place(vectors, {}, type, Operation::mean, 5, instructions);
      Digest digest(Digest::Kind::sha256);
      digest.add(vectors[0]);
      EXPECT_EQ(digest.hex(), expected) << name_of(type);
    }
}

TEST(FoldTree, WritesElsewhereAndLeavesTermsAlone) {
  for (const size_t results : {1, 2, 5}) {
    std::vector<Bytes> terms = random_vectors(Type::f32, 2, 1025);
    const std::vector<Bytes> before = terms;
    std::vector<Bytes> out(results, Bytes(terms[0].size()));
    const auto from = pointers(terms);
    const std::vector<const std::byte*> reads(from.begin(), from.end());
    const auto writes = pointers(out);
    fold_tree({reads, {}, writes, terms[0].size(), Type::f32, Operation::sum});
    EXPECT_EQ(terms, before);
    for (const Bytes& result : out)
      EXPECT_EQ(result, reference(Type::f32, Operation::sum, terms[0], terms[1]));
  }
}

TEST(FoldTree, RefusesWidthsThatAreNotNodes) {
  std::vector<Bytes> vectors = random_vectors(Type::f32, 2, 16);
  const auto fold = [&](const std::vector<int64_t>& widths) {
    fold_in_place(vectors, widths, Type::f32, Operation::sum, 1, Instructions::best);
  };
  EXPECT_NE(message_of<Error>([&] { fold({1, 3}); }).find("not nodes of the tree"),
            std::string::npos);
  EXPECT_NE(message_of<Error>([&] { fold({1, 1, 1}); }).find("3 widths for 2 terms"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::collective
