#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::launch {

/// Where rank 0 listens if nothing else is said, as with torchrun.
inline constexpr uint16_t kUsualPort = 29500;

/// Which worker of which job this process is.
struct Job {
  int rank = 0;
  int world = 1;
  int local_rank = 0;
  std::string master_host = "127.0.0.1";  ///< where rank 0 can be found
  uint16_t master_port = 0;
  std::string key;       ///< what only the job's workers know
  std::string launcher;  ///< "torchrun's variables", "Open MPI", ...
  bool by_mpi = false;   ///< whether MPI can be initialised: an mpirun started it
};

/// What the launcher left in the environment, in this order: torchrun's RANK, WORLD_SIZE, ...; Open
/// MPI's OMPI_COMM_WORLD_*; PMIX_RANK; PMI_RANK; Slurm's SLURM_PROCID, SLURM_NTASKS, ... of what
/// srun started. Nothing where there is no launcher, as in a batch script itself. Throws BadInput
/// for values that cannot be, and where only one of RANK and WORLD_SIZE is there.
///
/// The address of rank 0 is MASTER_ADDR and MASTER_PORT; if not said, under Slurm the first host of
/// the job and a port that depends on the job's number, elsewhere this host and 29500. The key is
/// LOCKSTEP_JOB_KEY.
std::optional<Job> job_from_environment();

/// "n[1-2,7],m3" -> "n1": the first host of a list as Slurm writes it.
std::string first_host(const std::string& list);

}  // namespace lockstep::launch
