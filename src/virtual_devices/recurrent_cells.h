#pragma once

#include <torch/library.h>

namespace lockstep::virtual_devices {

void register_recurrent_cells(torch::Library& aten);

}  // namespace lockstep::virtual_devices
