#include "parallel/tensor_buffer.h"

#include <c10/core/ScalarType.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>

#include "lockstep/error.h"
#include "virtual_devices/devices.h"

namespace lockstep::parallel {
namespace {

constexpr std::array<std::pair<at::ScalarType, Type>, 10> kTypes = {{
    {at::kFloat, Type::f32},
    {at::kDouble, Type::f64},
    {at::kHalf, Type::f16},
    {at::kBFloat16, Type::bf16},
    {at::kInt, Type::i32},
    {at::kLong, Type::i64},
    {at::kByte, Type::u8},
    {at::kChar, Type::i8},
    {at::kShort, Type::i16},
    {at::kBool, Type::boolean},
}};

}  // namespace

Type element_type(at::ScalarType type, const std::string& what) {
  for (const auto& [theirs, ours] : kTypes)
    if (theirs == type) return ours;
  throw BadInput(
      "{} is of {}: expected float, double, half, bfloat16, long, int, short, char, byte or bool",
      what, c10::toString(type));
}

at::ScalarType scalar_type(Type type) {
  for (const auto& [theirs, ours] : kTypes)
    if (ours == type) return theirs;
  return at::kFloat;
}

collective::Buffer buffer_of(const at::Tensor& tensor, const std::string& what) {
  if (!tensor.defined()) throw BadInput("{} is undefined", what);
  if (!tensor.device().is_cpu())
    throw BadInput("{} is on {}: expected one on the CPU", what, device_name(tensor.device()));
  const Type type = element_type(tensor.scalar_type(), what);
  if (!tensor.is_contiguous())
    throw BadInput("{} of {} is not contiguous; call .contiguous()", what,
                   fmt::join(tensor.sizes(), "x"));
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.numel(), type};
}

std::string device_name(at::Device device) {
  return virtual_devices::name_of(device);
}

std::string describe(const at::Tensor& tensor) {
  return fmt::format("{} {}", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), "x"));
}

}  // namespace lockstep::parallel
