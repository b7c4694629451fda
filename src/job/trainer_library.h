#pragma once

#include <future>
#include <string>
#include <vector>

#include "train/worker.h"

namespace lockstep::job {

/// Loads liblockstep, which trains, in a separate thread. It must be in the same folder as
/// liblockstep_core. The future throws Error if the library is missing or cannot be loaded.
std::future<const train::TrainerLibrary*> load_trainer();

/// Whether there are plugins: libraries to load, or some that are linked into this program.
bool has_plugins(const std::vector<std::string>& libraries);

/// If there are plugins: loads liblockstep and them, for a command that only looks at tables.
void load_plugins(const std::vector<std::string>& libraries);

/// Loads and registers them. Returns a digest of their code. Throws BadInput.
std::string load_plugins(const train::TrainerLibrary& trainer,
                         const std::vector<std::string>& libraries);

/// A digest of both libraries' files: workers with equal fingerprints run the same code.
std::string trainer_fingerprint();

}  // namespace lockstep::job
