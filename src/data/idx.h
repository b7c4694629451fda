#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace lockstep::data {

/// Grey images and their labels in MNIST's IDX format, plain or gzip. Throws BadInput.
Dataset read_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                 std::vector<std::string> class_names);

}  // namespace lockstep::data
