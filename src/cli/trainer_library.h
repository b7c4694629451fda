#pragma once

#include <future>
#include <string>

#include "train/worker.h"

namespace lockstep::cli {

/// Loads liblockstep, in a thread of its own, from the folder of liblockstep_core. Throws Error
/// where it is not there or does not fit.
std::future<train::TrainAsWorker> load_trainer();

/// Equal for two builds of both libraries that give the same bits.
std::string trainer_fingerprint();

}  // namespace lockstep::cli
