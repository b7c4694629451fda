#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/table.h"
#include "lockstep/plugin.h"

namespace lockstep::model {

struct ModelRow {
  std::string name;
  std::string about;
  MakeModel make;
};

/// The values of `model.name`.
Table<ModelRow>& models();

/// Makes the model `options.name`, with initial weights from `seed`. Throws BadInput for an unknown
/// name, an unknown option, or samples that the model does not support.
std::shared_ptr<Model> make_model(const ModelOptions& options, uint64_t seed);

/// The value of a recipe's train.kernels, "fused" or "torch".
nn::Kernels kernels_named(const std::string& name);

/// Throws BadInput unless a sample is an image (channels, height, width) of at least
/// `smallest` x `smallest` pixels.
void require_image(const ModelOptions& options, int64_t smallest);

}  // namespace lockstep::model
