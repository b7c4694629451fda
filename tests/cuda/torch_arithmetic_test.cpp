#include "cuda/torch_arithmetic.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/element.h"
#include "collective/fold/fold.h"

namespace lockstep::cuda {
namespace {

using Bytes = std::vector<std::byte>;

// All bit patterns but those of NaNs; zeros of both signs among them.
Bytes random_elements(Type type, unsigned seed) {
  std::minstd_rand random(seed);
  const size_t size = bytes_of(type);
  const bool floats =
      type == Type::f32 || type == Type::f64 || type == Type::f16 || type == Type::bf16;
  Bytes bytes(1001 * size);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool zero = i / size % 5 == 0;
    bytes[i] = zero ? std::byte{0} : static_cast<std::byte>(random() >> 8);
    const bool last = i % size == size - 1;
    if (last && zero && floats && random() % 2 == 0) bytes[i] = std::byte{0x80};
    if (last && floats) bytes[i] &= std::byte{0xbf};
    if (type == Type::boolean) bytes[i] &= std::byte{1};
  }
  return bytes;
}

template <typename Check>
void for_all_reductions(const Check& check) {
  for (size_t type = 0; type < type_names().size(); ++type)
    for (size_t operation = 0; operation < operation_names().size(); ++operation)
      if (is_reducible(static_cast<Type>(type), static_cast<Operation>(operation)))
        check(static_cast<Type>(type), static_cast<Operation>(operation));
}

TEST(TorchArithmetic, CombinesToTheSameBitsAsHostArithmetic) {
  TorchArithmetic torch(c10::Device(c10::kCPU));
  for_all_reductions([&](Type type, Operation operation) {
    const Bytes from = random_elements(type, 2);
    Bytes ours = random_elements(type, 1);
    Bytes theirs = ours;
    collective::host_arithmetic().combine(ours.data(), from.data(), ours.size(), type, operation);
    torch.combine(theirs.data(), from.data(), theirs.size(), type, operation);
    EXPECT_TRUE(ours == theirs) << name_of(operation) << " of " << name_of(type);
  });
}

TEST(TorchArithmetic, DividesToTheSameBitsAsHostArithmetic) {
  TorchArithmetic torch(c10::Device(c10::kCPU));
  for_all_reductions([&](Type type, Operation operation) {
    if (operation != Operation::mean) return;
    for (const int64_t n : {1, 3, 7, 300, 2049}) {
      Bytes ours = random_elements(type, 3);
      Bytes theirs = ours;
      collective::host_arithmetic().divide(ours.data(), ours.size(), type, n);
      torch.divide(theirs.data(), theirs.size(), type, n);
      EXPECT_TRUE(ours == theirs) << name_of(type) << " by " << n;
    }
  });
}

TEST(TorchArithmetic, TakesNaNsOverNumbers) {
  TorchArithmetic torch(c10::Device(c10::kCPU));
  for (const Operation operation : {Operation::min, Operation::max})
    for (const bool first : {true, false}) {
      float into = first ? NAN : 1.F;
      const float from = first ? 1.F : NAN;
      torch.combine(reinterpret_cast<std::byte*>(&into),
                    reinterpret_cast<const std::byte*>(&from), sizeof into, Type::f32, operation);
      EXPECT_TRUE(std::isnan(into));
    }
}

TEST(TorchArithmetic, CopiesBytes) {
  TorchArithmetic torch(c10::Device(c10::kCPU));
  const Bytes from = random_elements(Type::u8, 4);
  Bytes into(from.size());
  torch.copy(into.data(), from.data(), from.size());
  torch.copy(nullptr, nullptr, 0);
  EXPECT_TRUE(into == from);
}

}  // namespace
}  // namespace lockstep::cuda
