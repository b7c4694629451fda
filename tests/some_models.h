#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/models.h"

namespace lockstep {

/// Options for a model of images that gives a score for each of some classes.
inline ModelOptions model_options(const std::string& name, Shape input, int64_t classes = 10,
                                  nn::Kernels kernels = nn::Kernels::fused) {
  return {.name = name,
          .inputs = {{"x", Type::f32, std::move(input)}},
          .outputs = {{"scores", Type::f32, {classes}}},
          .kernels = kernels};
}

inline std::shared_ptr<Model> some_model(const std::string& name, Shape input = {3, 32, 32},
                                         int64_t classes = 10,
                                         nn::Kernels kernels = nn::Kernels::fused) {
  return model::make_model(model_options(name, std::move(input), classes, kernels), 1);
}

/// Fields of images and their labels, as such a model is trained on.
inline Fields image_fields(Shape input, int64_t classes = 10) {
  Fields fields{{{"x", Type::f32, std::move(input)}}, {{"y", Type::i64, {}}}};
  for (int64_t i = 0; i < classes; ++i) fields.targets[0].categories.push_back(std::to_string(i));
  return fields;
}

}  // namespace lockstep
