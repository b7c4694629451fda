#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace lockstep::data {

enum class Layout { channels_first, channels_last };

/// What to load, as a recipe says it.
struct SourceOptions {
  /// "fashion-mnist", "mnist", "cifar10", "npy:DIR" or "folder:DIR".
  std::string name = "fashion-mnist";
  /// The share of samples held out as the test split, where the source has no test split itself.
  double test_fraction = 0.1;
  /// Chooses the held-out samples.
  int64_t hold_out_seed = 1;
  /// How x.npy orders its dimensions.
  Layout layout = Layout::channels_first;
  /// folder: images are scaled (shorter side) and centre-cropped to this square; 0 takes them as
  /// they are, which all must then be of one size.
  int64_t image_size = 0;
};

/// Loads both splits into memory. Throws BadInput naming the file, what is wrong and the cure.
Splits load(const SourceOptions& options);

/// The same, for who works the digest out while it does something else.
Splits load_without_digest(const SourceOptions& options);

/// The names `load` knows without a path, in the order to show them.
std::vector<std::string> known_sources();

/// Where fetched data sets are kept: $LOCKSTEP_DATA, else $XDG_DATA_HOME/lockstep, else
/// ~/.local/share/lockstep; nothing where the environment has none of these.
std::optional<std::filesystem::path> find_data_home();

/// The same, but throws BadInput.
std::filesystem::path data_home();

}  // namespace lockstep::data
