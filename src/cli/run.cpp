#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/host.h"
#include "base/library_settings.h"
#include "cli/command.h"
#include "cli/placement_flags.h"
#include "cli/tell.h"
#include "launch/hosts_file.h"
#include "launch/remote_job.h"
#include "launch/ssh.h"
#include "launch/worker_process.h"
#include "launch/workers.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

// With the exit codes of a shell: 127 where there is no such program, 126 where it does not start.
class CannotBeStarted : public Error {
 public:
  CannotBeStarted(const std::string& program, int cause)
      : Error(fmt::format("{}: cannot be started: {}", program, std::strerror(cause))),
        exit_code_(cause == ENOENT || cause == ENOTDIR ? 127 : 126) {}

  int exit_code() const override { return exit_code_; }

 private:
  int exit_code_;
};

// Replaces this process by the program.
[[noreturn]] void become(const std::vector<std::string>& program, const launch::Job& job,
                         int local_world, int threads) {
  for (const auto& [name, value] : environment_of(job, local_world))
    setenv(name.c_str(), value.c_str(), 1);
  // By default LibTorch would use as many threads as the machine has processors, in every worker.
  setenv("OMP_NUM_THREADS", fmt::format("{}", threads).c_str(), 0);
  std::vector<char*> words;
  for (const std::string& word : program) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  throw CannotBeStarted(program[0], errno);
}

// Checks that the program exists, once and before workers are started.
void find_program(const std::string& name) {
  if (name.find('/') == std::string::npos) {
    const char* const path = std::getenv("PATH");
    std::istringstream folders(path == nullptr ? "/bin:/usr/bin" : path);
    for (std::string folder; std::getline(folders, folder, ':');)
      if (access(fmt::format("{}/{}", folder.empty() ? "." : folder, name).c_str(), X_OK) == 0)
        return;
    throw CannotBeStarted(name, ENOENT);
  }
  if (std::filesystem::is_directory(name)) throw CannotBeStarted(name, EISDIR);
  if (access(name.c_str(), X_OK) != 0) throw CannotBeStarted(name, errno);
}

int threads_per_worker(int workers) {
  return std::max(1, static_cast<int>(allowed_processors().size()) / std::max(1, workers));
}

int run_here(const launch::PlacementFlags& placement, const std::vector<std::string>& program) {
  launch::check(placement);
  find_program(program.front());
  set_up_libraries();
  const int threads = threads_per_worker(placement.workers());
  const StartedPlaced started = start_placed(placement, launch::Prefixed::all);
  if (started.worker) become(program, *started.worker, placement.workers(), threads);
  return started.exit_code;
}

struct RunFlags {
  launch::PlacementFlags placement;
  std::string hosts;  ///< a file
  launch::SshOptions ssh;
  bool remote = false;
};

// Rank 0's address. Nobody knows which ports are free on another host: one of many, below those
// that systems assign.
launch::MasterAddress master_on(const launch::ListedHost& host, const std::string& asked) {
  constexpr uint32_t kFirstPort = 20000;
  constexpr uint32_t kPorts = 9000;
  if (!asked.empty()) return launch::parse_master(asked);
  return {address_of(host), static_cast<uint16_t>(kFirstPort + std::random_device()() % kPorts)};
}

std::vector<launch::RemoteJob> jobs_on_hosts(const RunFlags& flags,
                                             const std::vector<std::string>& program) {
  const auto hosts = launch::read_hosts(flags.hosts, flags.placement.workers());
  const launch::MasterAddress master = master_on(hosts.front(), flags.placement.master);
  launch::Job first{.world = 0,
                    .master_host = master.host,
                    .master_port = master.port,
                    .key = launch::key_of_job()};
  for (const launch::ListedHost& host : hosts) first.world += host.slots;
  std::vector<launch::RemoteJob> jobs;
  for (const launch::ListedHost& host : hosts) {
    jobs.push_back({.host = host.name,
                    .folder = std::filesystem::current_path().string(),
                    .environment = launch::environment_for_others(),
                    .program = program,
                    .workers = host.slots,
                    .first = first});
    first.rank += host.slots;
  }
  return jobs;
}

// A process for every host, which is connected with the launcher there.
int run_on_hosts(RunFlags flags, const std::vector<std::string>& program) {
  // After a failure, a launcher there gives its other workers 3 s.
  constexpr double kPatienceSeconds = 5;
  const launch::PlacementFlags& placement = flags.placement;
  if (placement.asked_nodes || placement.asked_node_rank)
    throw BadInput("--hosts {}: leave --nnodes and --node-rank out: the file says which hosts",
                   flags.hosts);
  launch::check(launch::PlacementFlags{.asked_workers = placement.asked_workers});
  if (flags.ssh.lockstep.empty())
    flags.ssh.lockstep = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::vector<launch::RemoteJob> jobs = jobs_on_hosts(flags, program);
  const launch::StartedWorkers started =
      launch::start_workers({.count = static_cast<int>(jobs.size()),
                             .pinned = false,
                             .patience_seconds = kPatienceSeconds});
  if (started.rank)
    launch::end_worker(
        launch::launch_over_ssh(jobs[static_cast<size_t>(*started.rank)], flags.ssh));
  if (const launch::Ending* const failure = launch::first_failure(started.endings))
    tell(fmt::format("host {} ended with exit code {}",
                     jobs[static_cast<size_t>(failure->rank)].host, failure->exit_code()));
  return launch::exit_code_of(started.endings);
}

// The launcher on another host. Its messages name the host, since all hosts' output is shown
// together.
int run_as_told() {
  const launch::RemoteJob job = launch::receive_remote_job();
  try {
    if (chdir(job.folder.c_str()) != 0)
      throw CannotBeStarted(fmt::format("working directory {}", job.folder), errno);
    for (const auto& [name, value] : job.environment) setenv(name.c_str(), value.c_str(), 1);
    find_program(job.program.at(0));
  } catch (const CannotBeStarted& error) {
    tell(fmt::format("host {}: {}", job.host, error.what()));
    return error.exit_code();
  }
  set_up_libraries();
  const int threads = threads_per_worker(job.workers);
  const std::vector<launch::Job> jobs = jobs_of(job);
  const launch::StartedWorkers started = launch::start_workers(
      {.count = job.workers, .first_rank = job.first.rank, .prefixed = launch::Prefixed::all});
  if (started.rank)
    become(job.program, jobs[static_cast<size_t>(*started.rank - job.first.rank)], job.workers,
           threads);
  if (const launch::Ending* const failure = launch::first_failure(started.endings))
    tell(failure->text());
  return launch::exit_code_of(started.endings);
}

int run_program(const RunFlags& flags, const std::vector<std::string>& program) {
  if (flags.remote) return run_as_told();
  if (program.empty())
    throw BadInput("no program given; expected: lockstep run -n 2 -- PROGRAM ARGUMENTS");
  return flags.hosts.empty() ? run_here(flags.placement, program) : run_on_hosts(flags, program);
}

class RunCommand final : public Command {
 public:
  explicit RunCommand(CLI::App& parent, std::vector<std::string> program)
      : Command(
            parent, "run",
            "Start your own program as workers of one job: lockstep run -n N -- PROGRAM ARGUMENTS"),
        program_(std::move(program)) {
    add_placement_flags(app(), flags_.placement);
    app()
        .add_option("--hosts", flags_.hosts,
                    "start workers over ssh on the hosts that this file lists, one a line: HOST "
                    "[slots=N]")
        ->type_name("FILE");
    add_ssh_flags(app(), flags_.ssh);
    app()
        .add_option("--connect-timeout", flags_.ssh.connect_seconds,
                    "for each of them to answer (default 30)")
        ->type_name("SECONDS");
    app().add_flag("--remote", flags_.remote)->group("");  // what --hosts runs there
    app().footer(
        "The program gets its rank from lockstep::init, or from torchrun's variables: RANK, "
        "WORLD_SIZE,\n"
        "LOCAL_RANK, MASTER_ADDR, MASTER_PORT. Its output lines get the rank in front. When a "
        "worker\n"
        "fails, the others are stopped; Ctrl-C stops all.\n"
        "Examples:\n"
        "  lockstep run -n 2 -- ./my_program\n"
        "  lockstep run --hosts hosts.txt -- ./my_program\n"
        "  LOCKSTEP_JOB_KEY=... lockstep run -n 4 --nnodes 2 --node-rank 0 --master node1:29500 "
        "\\\n"
        "    -- ./my_program");
  }

  int run() override { return run_program(flags_, program_); }

 private:
  RunFlags flags_;
  const std::vector<std::string> program_;
};

}  // namespace

std::unique_ptr<Command> add_run(CLI::App& parent, std::vector<std::string> program) {
  return std::make_unique<RunCommand>(parent, std::move(program));
}

}  // namespace lockstep::cli
