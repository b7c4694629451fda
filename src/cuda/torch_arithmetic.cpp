#include "cuda/torch_arithmetic.h"

#include <ATen/ATen.h>

#include "parallel/tensor_buffer.h"

namespace lockstep::cuda {
namespace {

at::Tensor elements(const std::byte* data, size_t bytes, Type type, c10::Device device) {
  return at::for_blob(const_cast<std::byte*>(data), {static_cast<int64_t>(bytes / bytes_of(type))})
      .options(at::TensorOptions(parallel::scalar_type(type)).device(device))
      .target_device(device)
      .make_tensor();
}

bool is_half(Type type) {
  return type == Type::f16 || type == Type::bf16;
}

bool is_floating(Type type) {
  return type == Type::f32 || type == Type::f64 || is_half(type);
}

at::ScalarType bits_of(Type type) {
  if (bytes_of(type) == 8) return at::kLong;
  return bytes_of(type) == 4 ? at::kInt : at::kShort;
}

// LibTorch does not say which of two zeros with different signs is the smaller, and its kernels
// differ. Here, as in host memory, it is the one with the sign; and a NaN wins.
void take_extreme(const at::Tensor& into, const at::Tensor& from, Type type, Operation operation) {
  if (!is_floating(type)) {
    into.copy_(operation == Operation::min ? at::minimum(into, from) : at::maximum(into, from));
    return;
  }
  const at::Tensor a = into.view(bits_of(type));
  const at::Tensor b = from.view(bits_of(type));
  const at::Tensor equal = operation == Operation::min ? a.bitwise_or(b) : a.bitwise_and(b);
  const at::Tensor first =
      (operation == Operation::min ? into < from : into > from).logical_or(into != into);
  a.copy_(at::where(into == from, equal, at::where(first, a, b)));
}

}  // namespace

void TorchArithmetic::combine(std::byte* into, const std::byte* from, size_t bytes, Type type,
                              Operation operation) {
  if (bytes == 0) return;
  const at::NoGradGuard no_graph;
  const at::Tensor sum = elements(into, bytes, type, device_);
  const at::Tensor term = elements(from, bytes, type, device_);
  if (operation == Operation::min || operation == Operation::max)
    take_extreme(sum, term, type, operation);
  else
    sum.add_(term);
}

// The divisor is a tensor on the device: by a number, LibTorch's kernels for CUDA multiply with its
// reciprocal.
void TorchArithmetic::divide(std::byte* data, size_t bytes, Type type, int64_t n) {
  if (bytes == 0) return;
  const at::NoGradGuard no_graph;
  const at::Tensor values = elements(data, bytes, type, device_);
  const at::ScalarType wide = !is_floating(type) ? at::kLong
                              : is_half(type)    ? at::kFloat
                                                 : values.scalar_type();
  const at::Tensor by = at::full({1}, n, at::TensorOptions(wide).device(device_));
  if (is_floating(type))
    values.copy_(values.to(wide).div(by));
  else
    values.copy_(values.to(wide).div(by, "trunc"));
}

void TorchArithmetic::copy(std::byte* into, const std::byte* from, size_t bytes) {
  if (bytes > 0)
    elements(into, bytes, Type::u8, device_).copy_(elements(from, bytes, Type::u8, device_));
}

}  // namespace lockstep::cuda
