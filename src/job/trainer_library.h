#pragma once

#include <future>
#include <string>

#include "train/worker.h"

namespace lockstep::job {

/// Loads liblockstep, which trains, in a separate thread. It must be in the same folder as
/// liblockstep_core. The future throws Error if the library is missing or cannot be loaded.
std::future<const train::TrainerLibrary*> load_trainer();

/// A digest of both libraries' files: workers with equal fingerprints run the same code.
std::string trainer_fingerprint();

}  // namespace lockstep::job
