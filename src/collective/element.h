#pragma once

#include "base/element.h"

namespace lockstep::collective {

using lockstep::bytes_of;
using lockstep::name_of;
using lockstep::Operation;
using lockstep::operation_names;
using lockstep::parse_operation;
using lockstep::parse_type;
using lockstep::Type;
using lockstep::type_names;

}  // namespace lockstep::collective
