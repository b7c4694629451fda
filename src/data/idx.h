#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/dataset.h"

namespace lockstep::data {

/// Grey images and their labels in MNIST's IDX format, plain or gzip. Throws BadInput.
std::shared_ptr<const Dataset> read_idx(const std::filesystem::path& images,
                                        const std::filesystem::path& labels,
                                        std::vector<std::string> class_names);

}  // namespace lockstep::data
