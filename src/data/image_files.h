#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "data/image.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

/// The folders, or the image files (.png, .jpg, .jpeg), in a folder: sorted, so that their order
/// does not depend on the file system, and without hidden ones. Throws BadInput if it cannot be
/// read.
std::vector<std::filesystem::path> folders_in(const std::filesystem::path& folder);
std::vector<std::filesystem::path> images_in(const std::filesystem::path& folder);

/// Whether it has the extension of an image.
bool is_image(const std::filesystem::path& path);

/// Writes an image as a sample of {channels, height, width}, plane by plane; a grey image's only
/// plane is used for each channel.
void write_planes(const Image& image, const Shape& shape, std::span<uint8_t> to);

}  // namespace lockstep::data
