#include "base/element.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/nearest.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

size_t find(const std::string& name, const std::vector<std::string>& names, const char* what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw BadInput("'{}': no such {}{}; there are: {}", name, what, did_you_mean(name, names),
                   fmt::join(names, ", "));
  return static_cast<size_t>(found - names.begin());
}

}  // namespace

size_t bytes_of(Type type) {
  static constexpr std::array<size_t, 10> kBytes = {4, 8, 2, 2, 4, 8, 1, 1, 2, 1};
  return kBytes[static_cast<size_t>(type)];
}

const std::vector<std::string>& type_names() {
  static const std::vector<std::string> names = {"f32", "f64", "f16", "bf16", "i32",
                                                 "i64", "u8",  "i8",  "i16",  "bool"};
  return names;
}

const std::vector<std::string>& operation_names() {
  static const std::vector<std::string> names = {"sum", "mean", "min", "max"};
  return names;
}

const std::string& name_of(Type type) {
  return type_names()[static_cast<size_t>(type)];
}

const std::string& name_of(Operation operation) {
  return operation_names()[static_cast<size_t>(operation)];
}

bool is_reducible(Type type, Operation operation) {
  return type != Type::boolean || operation == Operation::min || operation == Operation::max;
}

void require_reducible(Type type, Operation operation) {
  if (!is_reducible(type, operation))
    throw BadInput("{} of bool: expected min (true if all are) or max (true if any is)",
                   name_of(operation));
}

Type parse_type(const std::string& name) {
  return static_cast<Type>(find(name, type_names(), "type"));
}

Operation parse_operation(const std::string& name) {
  return static_cast<Operation>(find(name, operation_names(), "operation"));
}

}  // namespace lockstep
