#pragma once

#include "model/model.h"

namespace lockstep::model {

/// He et al.'s CIFAR nets: three groups of (depth - 2) / 6 blocks with 16, 32 and 64 channels, and
/// shortcuts without parameters (subsample, then pad channels with zeros). `depth` is 6 n + 2.
std::shared_ptr<Model> make_cifar_resnet(int64_t depth, const ModelOptions& options);

/// ResNet-18 in its CIFAR form (a 3 x 3 first convolution and no first pooling), with 64 to 512
/// channels and projection shortcuts. State-dict names are torchvision's.
std::shared_ptr<Model> make_resnet18(const ModelOptions& options);

}  // namespace lockstep::model
