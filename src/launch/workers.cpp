#include "launch/workers.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/deadline.h"
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

[[noreturn]] void become_worker(int rank, int count, int parent,
                                const std::function<int(int)>& worker_main) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before this was asked for
  pin(rank, count, transport::allowed_processors());
  int code = 1;
  try {
    code = worker_main(rank);
  } catch (const Error& error) {
    std::fputs(fmt::format("lockstep: {}\n", error.what()).c_str(), stderr);
    code = error.exit_code();
  } catch (const std::bad_alloc&) {
    std::fputs(fmt::format("lockstep: rank {}: out of memory; see ulimit -v\n", rank).c_str(),
               stderr);
  } catch (const std::exception& error) {
    std::fputs(fmt::format("lockstep: rank {}: unexpected error: {}\n", rank, error.what()).c_str(),
               stderr);
  }
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && code == 0) {
    std::fputs(fmt::format("lockstep: rank {}: stdout cannot be written\n", rank).c_str(), stderr);
    code = 1;
  }
  _exit(code);
}

[[noreturn]] void give_up(int rank, int count, const std::vector<Ending>& started) {
  const int cause = errno;
  for (const Ending& worker : started) {
    kill(worker.pid, SIGKILL);
    waitpid(worker.pid, nullptr, 0);
  }
  throw Error(fmt::format("worker {} of {} cannot be started: {}; see ulimit -n and ulimit -u",
                          rank, count, std::strerror(cause)));
}

}  // namespace

std::string Ending::text() const {
  if (WIFSIGNALED(status))
    return fmt::format("rank {} (pid {}) was killed by signal {} ({})", rank, pid, WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  return fmt::format("rank {} (pid {}) ended with exit code {}", rank, pid, WEXITSTATUS(status));
}

int Ending::exit_code() const {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::vector<Ending> run_workers(int count, const std::function<int(int)>& worker_main,
                                double patience_seconds) {
  std::fflush(nullptr);
  const int parent = getpid();
  std::vector<Ending> endings;
  std::vector<pollfd> running;
  for (int rank = 0; rank < count; ++rank) {
    const int pid = fork();
    if (pid == 0) become_worker(rank, count, parent, worker_main);
    if (pid > 0) endings.push_back({rank, pid, 0});
    const int process = pid < 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (process < 0) give_up(rank, count, endings);
    running.push_back({process, POLLIN, 0});
  }

  std::optional<Deadline> patience;
  for (int left = count; left > 0;) {
    const int milliseconds = patience ? static_cast<int>(patience->left() * 1000) + 1 : -1;
    poll(running.data(), running.size(), milliseconds);
    for (size_t i = 0; i < running.size(); ++i) {
      if (running[i].fd < 0 || running[i].revents == 0) continue;
      waitpid(endings[i].pid, &endings[i].status, 0);
      close(std::exchange(running[i].fd, -1));
      endings[i].place = count - --left;
      if (!endings[i].well() && !patience) patience = Deadline::in(patience_seconds);
    }
    if (patience && patience->passed())
      for (size_t i = 0; i < running.size(); ++i)
        if (running[i].fd >= 0) kill(endings[i].pid, SIGKILL);
  }
  return endings;
}

const Ending* first_failure(const std::vector<Ending>& endings) {
  const Ending* first = nullptr;
  for (const Ending& ending : endings)
    if (!ending.well() && (first == nullptr || ending.place < first->place)) first = &ending;
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
