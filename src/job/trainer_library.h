#pragma once

#include <future>
#include <string>

#include "train/worker.h"

namespace lockstep::job {

/// Loads the library that trains, in a thread of its own, from beside this program or from where it
/// is installed. Throws Error where it is not there or does not fit.
std::future<const train::TrainerLibrary*> load_trainer();

/// Equal for two builds of it that give the same bits.
std::string trainer_fingerprint();

}  // namespace lockstep::job
