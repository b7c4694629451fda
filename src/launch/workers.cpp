#include "launch/workers.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
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
#include "launch/output.h"
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

// SIGINT and SIGTERM come as something to wait for, as long as this lives.
class Signals {
 public:
  Signals() {
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    sigprocmask(SIG_BLOCK, &both, &before_);
    descriptor_ = signalfd(-1, &both, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Signals() {
    if (descriptor_ >= 0) close(descriptor_);
    restore();
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  void restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  pollfd waits_for() const { return {descriptor_, POLLIN, 0}; }

  /// The signal that has come, or 0.
  int take() const {
    signalfd_siginfo info;
    const bool came = read(descriptor_, &info, sizeof info) == sizeof info;
    return came ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_ = {};
  int descriptor_ = -1;
};

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
    bool running = true;
  };

  Worker prepare(int index) const;
  [[noreturn]] void become_worker(Worker& worker, int index, int parent,
                                  const std::function<int(int)>& worker_main);
  [[noreturn]] void give_up(int rank);
  void wait();
  void see_who_ended();
  void send_all(int signal) const;
  void kill_who_hangs();

  const WorkersOptions options_;
  const Signals signals_;
  std::vector<Worker> workers_;
  int left_ = 0;
  int signals_seen_ = 0;
  std::optional<Deadline> patience_;
};

Crew::Worker Crew::prepare(int index) const {
  Worker worker;
  worker.ending.rank = options_.first_rank + index;
  worker.ending.host = transport::host_name();
  const bool prefixed = options_.prefixed == Prefixed::all ||
                        (options_.prefixed == Prefixed::others && worker.ending.rank > 0);
  if (prefixed)
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
      worker.output.emplace_back(stream, fmt::format("[{}] ", worker.ending.rank));
  return worker;
}

void Crew::become_worker(Worker& worker, int index, int parent,
                         const std::function<int(int)>& worker_main) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before this was asked for
  setpgid(0, 0);
  signals_.restore();
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
  std::vector<pollfd> waits = {signals_.waits_for()};
  for (const Worker& worker : workers_) {
    if (worker.running) waits.push_back({worker.process, POLLIN, 0});
    for (const OutputLine& line : worker.output)
      if (line.open()) waits.push_back(line.waits_for());
  }
  const int milliseconds = patience_ ? static_cast<int>(patience_->left() * 1000) + 1 : -1;
  poll(waits.data(), waits.size(), milliseconds);
}

void Crew::see_who_ended() {
  for (Worker& worker : workers_) {
    for (OutputLine& line : worker.output) line.pump();
    if (!worker.running) continue;
    if (waitpid(worker.ending.pid, &worker.ending.status, WNOHANG) != worker.ending.pid) continue;
    worker.running = false;
    worker.ending.place = options_.count - --left_;
    kill(-worker.ending.pid, SIGKILL);  // what it left behind
    for (OutputLine& line : worker.output) line.pump();
    if (!worker.output.empty())
      worker.ending.last_words.assign(worker.output.back().tail().begin(),
                                      worker.output.back().tail().end());
    if (!worker.ending.well() && !patience_) patience_ = Deadline::in(options_.patience_seconds);
  }
}

void Crew::kill_who_hangs() {
  for (Worker& worker : workers_) worker.ending.hung |= worker.running;
  send_all(SIGKILL);
}

std::vector<Ending> Crew::until_all_have_ended() {
  while (left_ > 0) {
    wait();
    see_who_ended();
    if (const int signal = signals_.take(); signal != 0)
      send_all(++signals_seen_ == 1 ? signal : SIGKILL);
    if (patience_ && patience_->passed()) kill_who_hangs();
  }
  std::vector<Ending> endings;
  for (Worker& worker : workers_) {
    for (OutputLine& line : worker.output) line.flush();
    endings.push_back(std::move(worker.ending));
  }
  return endings;
}

}  // namespace

std::string Ending::text() const {
  std::string text = fmt::format("rank {} ({}, pid {}) ", rank, host, pid);
  if (hung)
    text += "did not end and had to be killed: it hung, or was stopped";
  else if (WIFSIGNALED(status))
    text +=
        fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  else
    text += fmt::format("ended with exit code {}", WEXITSTATUS(status));
  if (!last_words.empty())
    text += fmt::format("; the last it wrote to stderr:\n  {}", fmt::join(last_words, "\n  "));
  return text;
}

int Ending::exit_code() const {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::vector<Ending> run_workers(const WorkersOptions& options,
                                const std::function<int(int)>& worker_main) {
  std::fflush(nullptr);
  Crew crew(options);
  crew.start(worker_main);
  return crew.until_all_have_ended();
}

const Ending* first_failure(const std::vector<Ending>& endings) {
  const auto weight = [](const Ending& ending) {
    if (ending.well()) return 0;
    if (ending.hung) return 2;
    return ending.exit_code() == kLostOthers ? 1 : 3;
  };
  const Ending* first = nullptr;
  for (const Ending& ending : endings) {
    const int theirs = first == nullptr ? 0 : weight(*first);
    if (weight(ending) > theirs ||
        (weight(ending) == theirs && theirs > 0 && ending.place < first->place))
      first = &ending;
  }
  return first;
}

int free_port() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool found = listener >= 0 &&
                     bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (listener >= 0) close(listener);
  if (!found) throw Error(fmt::format("no free port: {}", std::strerror(errno)));
  return ntohs(address.sin_port);
}

}  // namespace lockstep::launch
