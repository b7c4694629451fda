#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launch {

/// The default port of rank 0, as with torchrun.
inline constexpr uint16_t kUsualPort = 29500;

/// Which worker of which job this process is.
struct Job {
  int rank = 0;
  int world = 1;
  int local_rank = 0;
  std::string master_host = "127.0.0.1";  ///< host of rank 0
  uint16_t master_port = 0;
  std::vector<uint16_t> spare_ports;  ///< where rank 0 listens if `master_port` is in use
  std::string key;                    ///< secret of the job's workers
  std::string launcher;               ///< "torchrun's variables", "Open MPI", ...
  bool by_mpi = false;                ///< started by an mpirun, so that MPI can be initialised
};

/// Reads the launcher's environment variables, in this order: torchrun's RANK, WORLD_SIZE, ...;
/// Open MPI's OMPI_COMM_WORLD_*; PMIX_RANK; PMI_RANK; SLURM_PROCID, SLURM_NTASKS, ... in processes
/// started by srun. Nothing if there is no launcher, as in a batch script itself. Throws BadInput
/// for invalid values, and if only one of RANK and WORLD_SIZE is set.
///
/// The address of rank 0 is MASTER_ADDR and MASTER_PORT. Defaults: under Slurm the first host of
/// the job and a port derived from the job id, elsewhere this host and 29500. The key is
/// LOCKSTEP_JOB_KEY. Where torchrun itself listens at MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE),
/// rank 0 listens at other ports of MASTER_ADDR, which are derived from MASTER_PORT and the run id.
std::optional<Job> job_from_environment();

/// What one launcher's variables say about this process.
struct ToldRank {
  std::string launcher;        ///< as in Job
  std::string world_variable;  ///< "WORLD_SIZE", "SLURM_NTASKS", ...
  int rank = 0;
  int world = 1;
};

/// What each launcher says whose variables are set, in the order of `job_from_environment`, which
/// follows the first. Throws as it does.
std::vector<ToldRank> ranks_in_environment();

/// All variables in which launchers tell a process its rank, its world and where to meet.
std::vector<std::string> launcher_variables();

/// "n[1-2,7],m3" -> "n1": the first host of a list as Slurm writes it.
std::string first_host(const std::string& list);

}  // namespace lockstep::launch
