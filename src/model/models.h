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

/// What `model.name` may be.
Table<ModelRow>& models();

/// Builds the model `options.name`, with initial weights that follow from `seed`. Throws BadInput
/// for an unknown name, an option it does not know, or a data set whose samples do not suit it.
std::shared_ptr<Model> make_model(const ModelOptions& options, uint64_t seed);

/// What a recipe's train.kernels, "fused" or "torch", means.
nn::Kernels kernels_named(const std::string& name);

/// Throws BadInput unless a sample is an image (channels, height, width) of at least
/// `smallest` x `smallest` pixels.
void require_image(const ModelOptions& options, int64_t smallest);

}  // namespace lockstep::model
