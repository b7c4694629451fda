#include "launch/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "base/deadline.h"
#include "base/host.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

// Pins worker `index` to its share of the processors; with fewer processors than workers, all
// workers share all of them.
void pin(int index, int count, const std::vector<int>& processors) {
  const auto cpus = static_cast<int>(processors.size());
  cpu_set_t set;
  CPU_ZERO(&set);
  if (index < count && count <= cpus)
    for (int i = index * cpus / count; i < (index + 1) * cpus / count; ++i)
      CPU_SET(processors[static_cast<size_t>(i)], &set);
  else
    for (const int processor : processors) CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// A worker's process group is never in the terminal's foreground: reading from the terminal, or
// writing to it with `stty tostop`, would stop the worker.
void stand_in_the_background(int rank) {
  signal(SIGTTOU, SIG_IGN);
  if (rank == 0 && isatty(STDIN_FILENO) == 0) return;
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing > STDIN_FILENO) dup2(nothing, STDIN_FILENO);
}

}  // namespace

WorkerProcess::WorkerProcess(const Start& place, Surroundings& surroundings)
    : surroundings_(&surroundings) {
  ending_.rank = place.rank;
  ending_.noun = place.noun;
  ending_.host = host_name();
  const std::string prefix = fmt::format("[{}] ", place.rank);
  if (place.prefixed) {
    output_.emplace_back(STDOUT_FILENO, surroundings.out, prefix);
    output_.emplace_back(STDERR_FILENO, surroundings.err, prefix);
  }
  std::fflush(nullptr);
  const int parent = getpid();
  const int pid = fork();
  if (pid == 0) {
    become_worker(place, parent);
    return;
  }
  int cause = errno;
  if (pid > 0) {
    setpgid(pid, pid);  // in both processes, so that it is done before either continues
    ending_.pid = pid;
    running_ = true;
    surroundings.guardian.started(pid);
    for (OutputLine& line : output_) line.close_worker_end();
    process_ = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    cause = errno;
  }
  if (process_ >= 0) return;
  if (pid > 0) {
    send(SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  throw Error(fmt::format("worker {} of {} cannot be started: {}; see ulimit -n and ulimit -u",
                          place.rank, place.count, std::strerror(cause)));
}

WorkerProcess::~WorkerProcess() {
  if (process_ >= 0) close(process_);
}

WorkerProcess::WorkerProcess(WorkerProcess&& other) noexcept
    : stage(other.stage),
      surroundings_(other.surroundings_),
      ending_(std::move(other.ending_)),
      process_(std::exchange(other.process_, -1)),
      output_(std::move(other.output_)),
      running_(std::exchange(other.running_, false)),
      is_here_(other.is_here_) {}

void WorkerProcess::become_worker(const Start& place, int parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the launcher ended before prctl
  setpgid(0, 0);
  surroundings_->signals.restore();
  surroundings_->guardian.mark_this_process();
  surroundings_->reports.reach_from_this_process();
  stand_in_the_background(place.rank);
  for (OutputLine& line : output_) line.become_stream();
  if (place.pinned) pin(place.index, place.count, allowed_processors());
  is_here_ = true;
}

void end_worker(int exit_code) {
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && exit_code == 0) {
    std::fputs("lockstep: cannot write to stdout\n", stderr);
    exit_code = 1;
  }
  _exit(exit_code);
}

void WorkerProcess::add_waits(std::vector<pollfd>& waits) const {
  if (running_) waits.push_back({process_, POLLIN, 0});
  for (const OutputLine& line : output_)
    if (line.wanted()) waits.push_back(line.waits_for());
}

bool WorkerProcess::ends_now() {
  for (OutputLine& line : output_) line.pump();
  if (!running_ || waitpid(ending_.pid, &ending_.status, WNOHANG) <= 0) return false;
  finish();
  return true;
}

void WorkerProcess::finish() {
  running_ = false;
  kill(-ending_.pid, SIGKILL);  // processes that it started
  surroundings_->guardian.ended(ending_.pid);
  for (OutputLine& line : output_) line.finish();
  if (!output_.empty())
    ending_.last_words.assign(output_.back().tail().begin(), output_.back().tail().end());
}

void WorkerProcess::send(int signal) const {
  if (running_) kill(-ending_.pid, signal);
}

void finish_output(Surroundings& surroundings, bool signal_came) {
  constexpr double kSecondsAfterASignal = 1;
  std::optional<Deadline> deadline;
  while (!surroundings.out.empty() || !surroundings.err.empty()) {
    if (surroundings.signals.take() != 0) signal_came = true;
    if (signal_came && !deadline) deadline = Deadline::in(kSecondsAfterASignal);
    if (deadline && deadline->passed()) return;
    std::vector<pollfd> waits = {surroundings.signals.waits_for()};
    for (const Outlet* outlet : {&surroundings.out, &surroundings.err})
      if (!outlet->empty()) waits.push_back(outlet->waits_for());
    poll(waits.data(), waits.size(), deadline ? static_cast<int>(deadline->left() * 1000) + 1 : -1);
    surroundings.out.drain();
    surroundings.err.drain();
  }
}

}  // namespace lockstep::launch
