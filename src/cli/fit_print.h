#pragma once

#include "cli/train_flags.h"
#include "job/fit_job.h"

namespace lockstep::cli {

struct FitFlags {
  TrainFlags train;
  int most_devices = 64;
  double latency_us = 10;
  double gigabits = 0;
  bool json = false;
  std::string mode = "ddp";  ///< the recipe's parallel.mode
};

/// What `lockstep fit` found: one object for each way on stdout, and remarks on stderr.
void print_json(const job::FitResult& found, const FitFlags& flags, const Recipe& recipe);
void print_text(const job::FitResult& found, const FitFlags& flags, const Recipe& recipe);

}  // namespace lockstep::cli
