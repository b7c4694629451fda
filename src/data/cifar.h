#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/image.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

/// An official CIFAR-10 file contains records of a label byte and three planes of 32 x 32 pixels:
/// red, green, blue.
constexpr int64_t kCifarSide = 32;
constexpr int64_t kCifarPlane = kCifarSide * kCifarSide;
constexpr int64_t kCifarRecord = 1 + 3 * kCifarPlane;
constexpr int64_t kCifarBatch = 10'000;

/// Reads files of `records` each, one after another. Throws BadInput.
std::shared_ptr<const Dataset> read_cifar(std::span<const std::filesystem::path> files,
                                          int64_t records, std::vector<std::string> class_names);

/// The bytes of an official file, made from a picture with one image per row (its pixels one after
/// another) and the images' labels. `name` is for messages.
std::vector<uint8_t> cifar_records(const Image& rows, std::span<const uint8_t> labels,
                                   const std::string& name);

}  // namespace lockstep::data
