#include "launch/job.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/digest.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int number(const char* name, int lowest, int highest) {
  const std::string text = variable(name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < lowest || value > highest)
    throw BadInput("environment variable {}='{}': expected a number from {} to {}", name, text,
                   lowest, highest);
  return value;
}

// The variables in which a launcher gives a process its rank.
struct Launcher {
  const char* name;
  const char* rank;
  const char* world;
  const char* local_rank;
  bool by_mpi;
};

constexpr Launcher kLaunchers[] = {
    {"torchrun's variables", "RANK", "WORLD_SIZE", "LOCAL_RANK", false},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     true},
    {"PMIx", "PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK", true},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", true},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", false},
};

bool is_set(const char* name) {
  return std::getenv(name) != nullptr;
}

// Only one of torchrun's variables is a mistake: the worker would train alone.
void refuse_half_a_job() {
  const Launcher& torchrun = kLaunchers[0];
  if (is_set(torchrun.rank) == is_set(torchrun.world)) return;
  const bool has_rank = is_set(torchrun.rank);
  throw BadInput("environment variable {} is set and {} is not: set both, or neither",
                 has_rank ? torchrun.rank : torchrun.world,
                 has_rank ? torchrun.world : torchrun.rank);
}

// Slurm sets a rank also for the process of a batch script or an interactive shell. Only steps
// started by srun have one process per task; batch scripts and shells have no step id, or one of
// the last sixteen.
bool is_started_by_srun() {
  constexpr uint32_t kFirstSpecialStep = 0xfffffff0;
  const std::string text = variable("SLURM_STEP_ID");
  uint32_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  return error == std::errc() && end == text.data() + text.size() && step < kFirstSpecialStep;
}

bool says_who_this_is(const Launcher& launcher) {
  if (!is_set(launcher.rank) || !is_set(launcher.world)) return false;
  return std::string_view(launcher.rank) != "SLURM_PROCID" || is_started_by_srun();
}

constexpr int kMostRanks = 1 << 16;

ToldRank told_by(const Launcher& launcher) {
  const int world = number(launcher.world, 1, kMostRanks);
  return {.launcher = launcher.name,
          .world_variable = launcher.world,
          .rank = number(launcher.rank, 0, world - 1),
          .world = world};
}

// Jobs that Slurm puts on one node need different ports.
int master_port() {
  constexpr int kPortsForJobs = 1000;
  if (is_set("MASTER_PORT")) return number("MASTER_PORT", 1, 65535);
  if (!is_set("SLURM_JOB_ID")) return kUsualPort;
  return kUsualPort + number("SLURM_JOB_ID", 0, std::numeric_limits<int>::max()) % kPortsForJobs;
}

// torchrun's own store listens at MASTER_PORT. Workers meet at another port, the same on all of
// them: one of a few below the range from which systems assign ports, and away from torchrun's
// usual ones. Others may use those ports too, so that the job's name becomes part of its key. The
// restart count is not part of the name, since torchruns of different hosts may count differently.
void meet_beside_torchrun(Job& job) {
  constexpr uint32_t kFirstPort = 20000;
  constexpr uint32_t kPorts = 9000;
  constexpr uint32_t kCandidates = 8;
  const std::string name =
      fmt::format("torchrun {} at {}", variable("TORCHELASTIC_RUN_ID"), job.master_port);
  Digest digest(Digest::Kind::sha256);
  digest.add(name);
  const auto start = static_cast<uint32_t>(std::stoul(digest.hex().substr(0, 8), nullptr, 16));
  const auto candidate = [&](uint32_t i) {
    return static_cast<uint16_t>(kFirstPort + (start + i * (kPorts / kCandidates)) % kPorts);
  };
  job.master_port = candidate(0);
  for (uint32_t i = 1; i < kCandidates; ++i) job.spare_ports.push_back(candidate(i));
  job.key += name;
}

}  // namespace

std::string first_host(const std::string& list) {
  const size_t bracket = list.find('[');
  const size_t comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const size_t end = list.find_first_of(",-]", bracket);
  const size_t close = list.find(']', bracket);
  if (end == std::string::npos || close == std::string::npos)
    throw BadInput("host list '{}': expected one such as n[1-4]", list);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1) +
         first_host(list.substr(close + 1));
}

std::vector<ToldRank> ranks_in_environment() {
  refuse_half_a_job();
  std::vector<ToldRank> told;
  for (const Launcher& launcher : kLaunchers)
    if (says_who_this_is(launcher)) told.push_back(told_by(launcher));
  return told;
}

std::vector<std::string> launcher_variables() {
  std::vector<std::string> names = {"MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE",
                                    "TORCHELASTIC_USE_AGENT_STORE"};
  for (const Launcher& launcher : kLaunchers)
    names.insert(names.end(), {launcher.rank, launcher.world, launcher.local_rank});
  return names;
}

std::optional<Job> job_from_environment() {
  refuse_half_a_job();
  for (const Launcher& launcher : kLaunchers) {
    if (!says_who_this_is(launcher)) continue;
    const ToldRank told = told_by(launcher);
    Job job{.rank = told.rank,
            .world = told.world,
            .launcher = launcher.name,
            .by_mpi = launcher.by_mpi};
    if (is_set(launcher.local_rank)) job.local_rank = number(launcher.local_rank, 0, kMostRanks);
    if (is_set("MASTER_ADDR"))
      job.master_host = variable("MASTER_ADDR");
    else if (is_set("SLURM_JOB_NODELIST"))
      job.master_host = first_host(variable("SLURM_JOB_NODELIST"));
    job.master_port = static_cast<uint16_t>(master_port());
    job.key = variable("LOCKSTEP_JOB_KEY");
    if (variable("TORCHELASTIC_USE_AGENT_STORE") == "True") meet_beside_torchrun(job);
    return job;
  }
  return std::nullopt;
}

}  // namespace lockstep::launch
