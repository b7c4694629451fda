#pragma once

#include <filesystem>

#include "data/dataset.h"
#include "data/source.h"

namespace lockstep::data {

/// PNG and JPEG images, a folder a class: DIR/CLASS/..., or DIR/train/CLASS/... with
/// DIR/test/CLASS/... (or val). Throws BadInput.
Splits load_folder(const std::filesystem::path& folder, const SourceOptions& options);

}  // namespace lockstep::data
