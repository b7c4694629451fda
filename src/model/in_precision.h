#pragma once

#include <memory>
#include <string>

#include "lockstep/model.h"

namespace lockstep::model {

/// The model, computed in the precision of a recipe's train.precision: with "bf16" its layers run
/// as in a lockstep::Autocast. It shares the model's parameters and buffers, which stay float32, as
/// its outputs do. With "fp32", the model itself.
std::shared_ptr<Model> in_precision(std::shared_ptr<Model> model, const std::string& precision);

/// The kernels of a model that is computed in this precision, by the values of train.kernels and
/// train.precision. Ours compute in float32 only.
nn::Kernels kernels_for(const std::string& kernels, const std::string& precision);

}  // namespace lockstep::model
