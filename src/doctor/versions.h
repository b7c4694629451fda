#pragma once

#include <string>
#include <vector>

#include "doctor/finding.h"

namespace lockstep::doctor {

struct VersionFacts {
  std::string lockstep;
  std::string compiler;
  std::string library_failure;  ///< why liblockstep could not be loaded, or ""
  std::string libtorch;         ///< "" if it could not
  std::string onednn;
  std::string mpi;          ///< "Open MPI v4.1.4, ...", "none"; "" if it cannot be loaded
  std::string mpi_failure;  ///< why, or ""
  std::string mpi_file;     ///< the library, if it is loaded
  std::string nccl;         ///< "" if LibTorch has not loaded it
  std::string slurm;        ///< "" if srun is not in the PATH
  std::string kernel;
  std::string glibc;
  std::string system;  ///< the distribution
};

std::vector<Finding> judge(const VersionFacts& facts);

}  // namespace lockstep::doctor
