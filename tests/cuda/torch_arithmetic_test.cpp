#include "cuda/torch_arithmetic.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <random>

#include "base/element.h"
#include "collective/fold/fold.h"

namespace lockstep::cuda {
namespace {

using Bytes = std::vector<std::byte>;

// All bit patterns but those of NaNs; zeros of both signs among them.
Bytes random_elements(Type type, unsigned seed) {
  std::minstd_rand random(seed);
  const size_t size = lockstep::bytes_of(type);
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

// The CPU, and a CUDA device where there is one.
std::vector<c10::Device> devices() {
  std::vector<c10::Device> all = {c10::Device(c10::kCPU)};
  if (torch::cuda::is_available()) all.emplace_back(c10::kCUDA, 0);
  return all;
}

at::Tensor on_device(const Bytes& bytes, c10::Device device) {
  return at::from_blob(const_cast<std::byte*>(bytes.data()), {static_cast<int64_t>(bytes.size())},
                       at::kByte)
      .clone()
      .to(device);
}

std::byte* memory_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.data_ptr());
}

Bytes bytes_of(const at::Tensor& tensor) {
  const at::Tensor here = tensor.cpu();
  return {memory_of(here), memory_of(here) + here.numel()};
}

TEST(TorchArithmetic, CombinesToTheSameBitsAsHostArithmetic) {
  for (const c10::Device device : devices())
    for_all_reductions([&](Type type, Operation operation) {
      const Bytes from = random_elements(type, 2);
      Bytes into = random_elements(type, 1);
      const at::Tensor term = on_device(from, device);
      const at::Tensor sum = on_device(into, device);
      collective::host_arithmetic().combine(into.data(), from.data(), into.size(), type, operation);
      TorchArithmetic(device).combine(memory_of(sum), memory_of(term), into.size(), type,
                                      operation);
      EXPECT_TRUE(bytes_of(sum) == into)
          << name_of(operation) << " of " << name_of(type) << " on " << device;
    });
}

TEST(TorchArithmetic, DividesToTheSameBitsAsHostArithmetic) {
  for (const c10::Device device : devices())
    for_all_reductions([&](Type type, Operation operation) {
      if (operation != Operation::mean) return;
      for (const int64_t n : {1, 3, 7, 300, 2049}) {
        Bytes values = random_elements(type, 3);
        const at::Tensor quotients = on_device(values, device);
        collective::host_arithmetic().divide(values.data(), values.size(), type, n);
        TorchArithmetic(device).divide(memory_of(quotients), values.size(), type, n);
        EXPECT_TRUE(bytes_of(quotients) == values)
            << name_of(type) << " by " << n << " on " << device;
      }
    });
}

TEST(TorchArithmetic, TakesNaNsOverNumbers) {
  TorchArithmetic torch(c10::Device(c10::kCPU));
  for (const Operation operation : {Operation::min, Operation::max})
    for (const bool first : {true, false}) {
      float into = first ? NAN : 1.F;
      const float from = first ? 1.F : NAN;
      torch.combine(reinterpret_cast<std::byte*>(&into), reinterpret_cast<const std::byte*>(&from),
                    sizeof into, Type::f32, operation);
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
