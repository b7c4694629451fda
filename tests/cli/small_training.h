#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/write_npy.h"

namespace lockstep::cli {

using Words = std::vector<std::string>;

/// So many images of 3 x 16 x 16 pixels in three classes.
inline void write_images(const std::filesystem::path& folder, size_t count) {
  std::vector<float> x(count * 3 * 16 * 16);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(std::sin(0.37 * double(i)));
  std::vector<int64_t> y(count);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int64_t>(i * 7 % 3);
  data::write_npy(folder / "x.npy", "<f4", fmt::format("({}, 3, 16, 16)", count),
                  std::as_bytes(std::span(x)));
  data::write_npy(folder / "y.npy", "<i8", fmt::format("({},)", count),
                  std::as_bytes(std::span(y)));
}

/// The command that trains a network with BatchNorm, or the one that `flags` have, on a folder's
/// images, in its subfolder `out`.
inline Words train_on(const std::filesystem::path& folder, const std::string& out,
                      const Words& flags) {
  Words words = {"train",  "--data", "npy:" + folder.string(), "--batch", "12",
                 "--json", "--out",  (folder / out).string()};
  if (std::ranges::find(flags, "--model") == flags.end())
    words.insert(words.end(), {"--model", "resnet20"});
  words.insert(words.end(), flags.begin(), flags.end());
  return words;
}

}  // namespace lockstep::cli
