#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/host.h"
#include "cli/command.h"
#include "cli/placement_flags.h"
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

// The process becomes the program.
[[noreturn]] void become(const std::vector<std::string>& program, const launch::Job& job,
                         int local_world, int threads) {
  for (const auto& [name, value] : environment_of(job, local_world))
    setenv(name.c_str(), value.c_str(), 1);
  // LibTorch would take as many threads as the machine has processors, in every worker.
  setenv("OMP_NUM_THREADS", fmt::format("{}", threads).c_str(), 0);
  std::vector<char*> words;
  for (const std::string& word : program) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  throw CannotBeStarted(program[0], errno);
}

// Whether there is such a program can be told once, before there are workers.
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

int run_program(const launch::PlacementFlags& placement, const std::vector<std::string>& program) {
  if (program.empty()) throw BadInput("say what to run: lockstep run -n 2 -- PROGRAM ARGUMENTS");
  launch::check(placement);
  find_program(program.front());
  const auto processors = static_cast<int>(allowed_processors().size());
  const int threads = std::max(1, processors / std::max(1, placement.workers()));
  const StartedPlaced started = start_placed(placement, launch::Prefixed::all);
  if (started.worker) become(program, *started.worker, placement.workers(), threads);
  return started.exit_code;
}

class RunCommand final : public Command {
 public:
  explicit RunCommand(CLI::App& parent, std::vector<std::string> program)
      : Command(
            parent, "run",
            "Start your own program as workers of one job: lockstep run -n N -- PROGRAM ARGUMENTS"),
        program_(std::move(program)) {
    add_placement_flags(app(), flags_);
    app().footer(
        "The program finds its rank by lockstep::init, or by torchrun's variables: RANK, "
        "WORLD_SIZE,\n"
        "LOCAL_RANK, MASTER_ADDR, MASTER_PORT. Lines of its output get the rank in front. When a\n"
        "worker fails the others are ended; Ctrl-C ends all.\n"
        "Examples:\n"
        "  lockstep run -n 2 -- build/examples/mnist_ddp ~/.local/share/lockstep/mnist\n"
        "  LOCKSTEP_JOB_KEY=... lockstep run -n 4 --nnodes 2 --node-rank 0 --master node1:29500 "
        "\\\n"
        "    -- ./my_program");
  }

  int run() override { return run_program(flags_, program_); }

 private:
  launch::PlacementFlags flags_;
  const std::vector<std::string> program_;
};

}  // namespace

std::unique_ptr<Command> add_run(CLI::App& parent, std::vector<std::string> program) {
  return std::make_unique<RunCommand>(parent, std::move(program));
}

}  // namespace lockstep::cli
