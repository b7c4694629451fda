#include "launch/workers.h"

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
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "base/deadline.h"
#include "launch/guardian.h"
#include "launch/outlet.h"
#include "launch/output.h"
#include "launch/report.h"
#include "launch/signals.h"
#include "lockstep/error.h"
#include "transport/host.h"

namespace lockstep::launch {
namespace {

// Worker r of n gets the r-th n-th of the processors; where there are fewer, they share.
void pin(int rank, int count, const std::vector<int>& processors) {
  const auto cpus = static_cast<int>(processors.size());
  cpu_set_t set;
  CPU_ZERO(&set);
  if (count <= cpus)
    for (int i = rank * cpus / count; i < (rank + 1) * cpus / count; ++i)
      CPU_SET(processors[static_cast<size_t>(i)], &set);
  else
    for (const int processor : processors) CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// A worker's process group is never the terminal's: to read from it, or to write where `stty
// tostop` is set, would stop the worker.
void stand_in_the_background(int rank) {
  signal(SIGTTOU, SIG_IGN);
  if (rank == 0 && isatty(STDIN_FILENO) == 0) return;
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing > STDIN_FILENO) dup2(nothing, STDIN_FILENO);
}

// What a worker's main function returns or throws, as an exit code.
int exit_code_of(int rank, const std::function<int(int)>& worker_main) {
  const auto complain = [](const std::string& message) {
    std::fputs(fmt::format("lockstep: {}\n", message).c_str(), stderr);
  };
  int code = 1;
  try {
    code = worker_main(rank);
  } catch (const Error& error) {
    complain(error.what());
    code = error.exit_code();
  } catch (const std::bad_alloc&) {
    complain(fmt::format("rank {}: out of memory; see ulimit -v", rank));
  } catch (const std::exception& error) {
    complain(fmt::format("rank {}: unexpected error: {}", rank, error.what()));
  }
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && code == 0) {
    complain(fmt::format("rank {}: stdout cannot be written", rank));
    code = 1;
  }
  return code;
}

// Workers and what they write. Each worker has a process group of its own, so that Ctrl-C reaches
// it once, through here, and so that what it started itself can be ended with it.
class Crew {
 public:
  explicit Crew(const WorkersOptions& options) : options_(options) {}
  ~Crew() {
    for (const Worker& worker : workers_)
      if (worker.process >= 0) close(worker.process);
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void start(const std::function<int(int)>& worker_main);
  std::vector<Ending> until_all_have_ended();

 private:
  struct Worker {
    Ending ending;
    int process = -1;  ///< a descriptor that tells when it ends
    std::vector<OutputLine> output;
    Stage stage = Stage::unknown;
    bool running = true;
  };

  Worker prepare(int index);
  [[noreturn]] void become_worker(Worker& worker, int index, int parent,
                                  const std::function<int(int)>& worker_main);
  [[noreturn]] void give_up(int rank);
  void wait();
  void read_reports();
  void see_who_ended();
  void reap(Worker& worker);
  void end_a_meeting_in_vain();
  void pass_on_signals();
  void send_all(int signal) const;
  void kill_who_hangs();
  void finish_output();
  bool obeyed(const Ending& ending) const;

  const WorkersOptions options_;
  const Signals signals_;
  const Guardian guardian_;
  const Reports reports_;
  Outlet out_{STDOUT_FILENO};
  Outlet err_{STDERR_FILENO};
  std::vector<Worker> workers_;
  int left_ = 0;
  int first_signal_ = 0;
  int signals_seen_ = 0;
  std::optional<Deadline> patience_;
};

Crew::Worker Crew::prepare(int index) {
  Worker worker;
  worker.ending.rank = options_.first_rank + index;
  worker.ending.host = transport::host_name();
  const bool prefixed = options_.prefixed == Prefixed::all ||
                        (options_.prefixed == Prefixed::others && worker.ending.rank > 0);
  const std::string prefix = fmt::format("[{}] ", worker.ending.rank);
  if (prefixed) {
    worker.output.emplace_back(STDOUT_FILENO, out_, prefix);
    worker.output.emplace_back(STDERR_FILENO, err_, prefix);
  }
  return worker;
}

void Crew::become_worker(Worker& worker, int index, int parent,
                         const std::function<int(int)>& worker_main) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before this was asked for
  setpgid(0, 0);
  signals_.restore();
  guardian_.mark_this_process();
  reports_.reach_from_this_process();
  stand_in_the_background(worker.ending.rank);
  for (OutputLine& line : worker.output) line.become_stream();
  pin(index, options_.count, transport::allowed_processors());
  _exit(exit_code_of(worker.ending.rank, worker_main));
}

void Crew::start(const std::function<int(int)>& worker_main) {
  const int parent = getpid();
  for (int index = 0; index < options_.count; ++index) {
    Worker worker = prepare(index);
    const int pid = fork();
    if (pid == 0) become_worker(worker, index, parent, worker_main);
    if (pid < 0) give_up(worker.ending.rank);
    setpgid(pid, pid);  // in both, so that it is done before either goes on
    worker.ending.pid = pid;
    guardian_.started(pid);
    for (OutputLine& line : worker.output) line.close_worker_end();
    worker.process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    const bool watched = worker.process >= 0;
    workers_.push_back(std::move(worker));
    if (!watched) give_up(options_.first_rank + index);
  }
  left_ = options_.count;
}

void Crew::give_up(int rank) {
  const int cause = errno;
  send_all(SIGKILL);
  for (const Worker& worker : workers_) waitpid(worker.ending.pid, nullptr, 0);
  throw Error(fmt::format("worker {} of {} cannot be started: {}; see ulimit -n and ulimit -u",
                          rank, options_.count, std::strerror(cause)));
}

void Crew::send_all(int signal) const {
  for (const Worker& worker : workers_)
    if (worker.running) kill(-worker.ending.pid, signal);
}

void Crew::wait() {
  std::vector<pollfd> waits = {signals_.waits_for(), reports_.waits_for()};
  for (const Outlet* outlet : {&out_, &err_})
    if (!outlet->empty()) waits.push_back(outlet->waits_for());
  for (const Worker& worker : workers_) {
    if (worker.running) waits.push_back({worker.process, POLLIN, 0});
    for (const OutputLine& line : worker.output)
      if (line.wanted()) waits.push_back(line.waits_for());
  }
  const int milliseconds = patience_ ? static_cast<int>(patience_->left() * 1000) + 1 : -1;
  poll(waits.data(), waits.size(), milliseconds);
}

void Crew::read_reports() {
  for (const auto& [rank, stage] : reports_.take())
    for (Worker& worker : workers_)
      if (worker.ending.rank == rank) worker.stage = stage;
}

void Crew::see_who_ended() {
  for (Worker& worker : workers_) {
    for (OutputLine& line : worker.output) line.pump();
    if (worker.running && waitpid(worker.ending.pid, &worker.ending.status, WNOHANG) > 0)
      reap(worker);
  }
  out_.drain();
  err_.drain();
}

void Crew::reap(Worker& worker) {
  read_reports();  // of what it did before it ended
  worker.running = false;
  worker.ending.place = options_.count - --left_;
  kill(-worker.ending.pid, SIGKILL);  // what it left behind
  guardian_.ended(worker.ending.pid);
  for (OutputLine& line : worker.output) line.finish();
  if (!worker.output.empty())
    worker.ending.last_words.assign(worker.output.back().tail().begin(),
                                    worker.output.back().tail().end());
  if (!worker.ending.well() && !patience_) patience_ = Deadline::in(options_.patience_seconds);
}

// Who waits for all to come would wait a minute for one that is gone.
void Crew::end_a_meeting_in_vain() {
  if (patience_) return;
  const bool waiting = std::any_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return worker.running && worker.stage == Stage::meeting;
  });
  for (Worker& worker : workers_) {
    if (!waiting || worker.running || worker.stage == Stage::met) continue;
    worker.ending.early = true;
    patience_ = Deadline::in(options_.patience_seconds);
    return send_all(SIGTERM);
  }
}

void Crew::pass_on_signals() {
  const int signal = signals_.take();
  if (signal == 0) return;
  if (++signals_seen_ == 1) first_signal_ = signal;
  send_all(signals_seen_ == 1 ? signal : SIGKILL);
}

void Crew::kill_who_hangs() {
  for (Worker& worker : workers_) worker.ending.hung |= worker.running;
  send_all(SIGKILL);
}

// A reader that takes nothing can be given up by a signal, whether it came before or comes now.
void Crew::finish_output() {
  constexpr double kSecondsAfterASignal = 1;
  std::optional<Deadline> deadline;
  while (!out_.empty() || !err_.empty()) {
    if (signals_.take() != 0) signals_seen_++;
    if (signals_seen_ > 0 && !deadline) deadline = Deadline::in(kSecondsAfterASignal);
    if (deadline && deadline->passed()) return;
    std::vector<pollfd> waits = {signals_.waits_for()};
    for (const Outlet* outlet : {&out_, &err_})
      if (!outlet->empty()) waits.push_back(outlet->waits_for());
    poll(waits.data(), waits.size(), deadline ? static_cast<int>(deadline->left() * 1000) + 1 : -1);
    out_.drain();
    err_.drain();
  }
}

// Whether it ended because of a signal that was passed on to it, or followed one that did.
bool Crew::obeyed(const Ending& ending) const {
  if (signals_seen_ == 0 || ending.well() || ending.early) return false;
  const int code = ending.exit_code();
  return code == 128 + first_signal_ || code == kLostOthers ||
         (signals_seen_ > 1 && code == 128 + SIGKILL);
}

std::vector<Ending> Crew::until_all_have_ended() {
  while (left_ > 0) {
    wait();
    read_reports();
    see_who_ended();
    end_a_meeting_in_vain();
    pass_on_signals();
    if (patience_ && patience_->passed()) kill_who_hangs();
  }
  finish_output();
  std::vector<Ending> endings;
  for (Worker& worker : workers_) {
    worker.ending.as_asked = obeyed(worker.ending);
    endings.push_back(std::move(worker.ending));
  }
  find_who_left_early(endings);
  return endings;
}

}  // namespace

std::vector<Ending> run_workers(const WorkersOptions& options,
                                const std::function<int(int)>& worker_main) {
  std::fflush(nullptr);
  Crew crew(options);
  crew.start(worker_main);
  return crew.until_all_have_ended();
}

}  // namespace lockstep::launch
