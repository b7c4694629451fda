#pragma once

#include "model/model.h"

namespace lockstep::model {

/// The Simple MNIST Convnet of the Keras tutorial, for images of any size from 10 x 10:
/// conv 32 - pool - conv 64 - pool - dropout 0.5 - dense.
std::shared_ptr<Model> make_convnet(const ModelOptions& options);

/// Throws BadInput unless a sample is an image (channels, height, width) of at least
/// `smallest` x `smallest` pixels.
void require_image(const ModelOptions& options, int64_t smallest);

}  // namespace lockstep::model
