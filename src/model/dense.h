#pragma once

#include "model/model.h"

namespace lockstep::model {

/// Two hidden layers of 512 with ReLU. Takes samples of any shape.
std::shared_ptr<Model> make_mlp(const ModelOptions& options);

/// One linear layer: multinomial logistic regression. Takes samples of any shape.
std::shared_ptr<Model> make_logistic(const ModelOptions& options);

}  // namespace lockstep::model
