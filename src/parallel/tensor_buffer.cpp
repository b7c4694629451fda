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

bool is_carried(at::Device device, collective::Communicator& group) {
  const transport::DeviceSide* const side = group.transport().device();
  return side != nullptr && side->device_name() == device_name(device);
}

collective::Buffer buffer_of(const at::Tensor& tensor, collective::Communicator& group) {
  if (!tensor.defined()) throw BadInput("tensor is undefined");
  const bool carried = is_carried(tensor.device(), group);
  if (!carried && !tensor.device().is_cpu())
    throw BadInput("tensor is on {}: expected one on the CPU", device_name(tensor.device()));
  const Type type = element_type(tensor.scalar_type());
  if (!tensor.is_contiguous())
    throw BadInput("tensor of {} is not contiguous; call .contiguous()",
                   fmt::join(tensor.sizes(), "x"));
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.numel(), type,
          carried ? transport::Place::device : transport::Place::host};
}

std::string device_name(at::Device device) {
  return virtual_devices::name_of(device);
}

std::string describe(const at::Tensor& tensor) {
  return fmt::format("{} {}", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), "x"));
}

}  // namespace lockstep::parallel
