#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/element.h"

namespace lockstep {

size_t bytes_of(Type type);

/// "f32", ..., in the order of Type; "sum", ..., in the order of Operation.
const std::vector<std::string>& type_names();
const std::vector<std::string>& operation_names();
const std::string& name_of(Type type);
const std::string& name_of(Operation operation);

/// Whether elements of a type can be reduced: all but sums and means of bool.
bool is_reducible(Type type, Operation operation);
/// Throws BadInput unless they can.
void require_reducible(Type type, Operation operation);

/// Throw BadInput with the nearest name.
Type parse_type(const std::string& name);
Operation parse_operation(const std::string& name);

}  // namespace lockstep
