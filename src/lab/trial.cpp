#include "lab/trial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "base/atomic_file.h"
#include "base/deadline.h"
#include "base/host.h"
#include "base/units.h"
#include "launch/worker_process.h"
#include "lockstep/error.h"

namespace lockstep::lab {
namespace {

namespace fs = std::filesystem;

constexpr int kBadInput = 2;
constexpr double kSecondsToEnd = 10;  // after SIGTERM, which lets it write a checkpoint

void use_processors(int count) {
  const std::vector<int> allowed = allowed_processors();
  if (count == 0 || static_cast<size_t>(count) >= allowed.size()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < count; ++i)
    CPU_SET(static_cast<size_t>(allowed[static_cast<size_t>(i)]), &set);
  sched_setaffinity(0, sizeof(set), &set);
}

void print_to(const fs::path& log) {
  const int file = open(log.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0) return;
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  close(file);
}

// Also in the workers that it forks.
[[noreturn]] void train_and_end(const job::TrainingJob& job) {
  int code = 1;
  try {
    code = job::run_training(job).exit_code;
  } catch (const Error& error) {
    std::fputs(fmt::format("lockstep: {}\n", error.what()).c_str(), stderr);
    code = error.exit_code();
  } catch (const std::exception& error) {
    std::fputs(fmt::format("lockstep: unexpected error: {}\n", error.what()).c_str(), stderr);
  }
  launch::end_worker(code);
}

pid_t start(const job::TrainingJob& job, const TrialOptions& options, const fs::path& log) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw Error(fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  print_to(log);
  use_processors(options.processors);
  train_and_end(job);
}

// The exit code of a process that ends within so many seconds.
std::optional<int> ends_within(int process, pid_t pid, double seconds) {
  constexpr double kLongestPoll = 3600;
  const Deadline deadline = Deadline::in(seconds);
  pollfd wait{.fd = process, .events = POLLIN, .revents = 0};
  while (wait.revents == 0) {
    if (deadline.passed()) return std::nullopt;
    const double milliseconds = std::ceil(1000 * std::min(deadline.left(), kLongestPoll));
    if (poll(&wait, 1, static_cast<int>(milliseconds)) < 0 && errno != EINTR)
      throw Error(fmt::format("cannot wait for a process: {}", std::strerror(errno)));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A descriptor that is readable once the process has ended.
int watch(pid_t pid) {
  const auto process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (process >= 0) return process;
  const int cause = errno;
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  throw Error(
      fmt::format("cannot watch a process (pidfd_open): {}; see ulimit -n", std::strerror(cause)));
}

// Workers of a launcher that is killed end, too.
void end_process(int process, pid_t pid) {
  kill(pid, SIGTERM);
  if (ends_within(process, pid, kSecondsToEnd)) return;
  kill(pid, SIGKILL);
  ends_within(process, pid, kSecondsToEnd);
}

// The first line of what a run printed as an error.
std::string complaint_in(const fs::path& log) {
  const std::string text = fs::exists(log) ? read_file(log) : "";
  const std::string_view mark = "lockstep: ";
  const size_t begin = text.find(mark);
  if (begin == std::string::npos) return fmt::format("see {}", log.string());
  return text.substr(begin + mark.size(), text.find('\n', begin) - begin - mark.size());
}

}  // namespace

std::vector<run::Json> run_trial(job::TrainingJob job, const TrialOptions& options) {
  fs::create_directories(options.out.parent_path());
  job.folder.out = options.out;
  const fs::path log = options.out.string() + ".log";
  const pid_t pid = start(job, options, log);
  const int process = watch(pid);
  const std::optional<int> code = ends_within(process, pid, options.deadline_seconds);
  if (!code) end_process(process, pid);
  close(process);
  if (!code)
    throw Timeout({}, fmt::format("the run {} took longer than {} (--timeout)",
                                  options.out.string(), format_duration(options.deadline_seconds)));
  if (*code == kBadInput) throw BadInput("{}", complaint_in(log));
  if (*code != 0)
    throw Error(fmt::format("the run {} ended with exit code {}: {}", options.out.string(), *code,
                            complaint_in(log)));
  return run::read_events(options.out / "events.jsonl");
}

}  // namespace lockstep::lab
