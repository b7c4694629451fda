#include "launch/guardian.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

#include "lockstep/error.h"

// The guardian reads from a pipe whose write end only the launcher holds, so that it is closed when
// the launcher ends. A positive number is the pid of a worker that has started, a negative one of a
// worker that has ended. A `mark` is a random word of the launcher, in an environment variable of
// every worker. A launcher that is itself a worker appends its mark to that of its own launcher, so
// that both guardians find its workers.
namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarkVariable = "LOCKSTEP_LAUNCHER_MARK";
// Limit for processes that start others faster than they are found.
constexpr int kMostSweeps = 20;
// How long a guardian may take to end.
constexpr int kMostMilliseconds = 2000;

std::string random_mark() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

bool is_marked(const fs::path& process, const std::string& mark) {
  std::ifstream file(process / "environ", std::ios::binary);
  const std::string name = fmt::format("{}=", kMarkVariable);
  for (std::string variable; std::getline(file, variable, '\0');)
    if (variable.starts_with(name)) return variable.find(mark) != std::string::npos;
  return false;
}

bool is_alive(const fs::path& process) {
  std::ifstream file(process / "stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.size() > name_end + 2 && text[name_end + 2] != 'Z';
}

// Returns how many were killed.
int kill_marked(const std::string& mark) {
  int killed = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    int pid = 0;
    const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (wrong != std::errc() || end != name.data() + name.size()) continue;
    if (!is_marked(entry.path(), mark) || !is_alive(entry.path())) continue;
    if (kill(pid, SIGKILL) == 0) ++killed;
  }
  return killed;
}

// Detaches from the terminal and closes all streams, so that nobody who reads the launcher's output
// waits for the guardian.
void step_aside(int pipe) {
  setsid();
  prctl(PR_SET_NAME, "lockstep-guard");
  for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(each, SIG_IGN);
  const int nothing = open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, stream);
  dup2(pipe, STDIN_FILENO);
  syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);
}

[[noreturn]] void guard(int pipe, const std::string& mark) {
  step_aside(pipe);
  std::set<int> groups;
  for (int pid = 0; true;) {
    const ssize_t count = read(STDIN_FILENO, &pid, sizeof pid);
    if (count < 0 && errno == EINTR) continue;
    if (count != sizeof pid) break;
    if (pid > 0)
      groups.insert(pid);
    else
      groups.erase(-pid);
  }
  for (const int group : groups) kill(-group, SIGKILL);
  for (int i = 0; i < kMostSweeps && kill_marked(mark) > 0; ++i) continue;
  _exit(0);
}

}  // namespace

Guardian::Guardian() : mark_(random_mark()) {
  int ends[2];
  const bool piped = pipe2(ends, O_CLOEXEC) == 0;
  pid_ = piped ? fork() : -1;
  if (pid_ == 0) {
    close(ends[1]);
    guard(ends[0], mark_);
  }
  const int cause = errno;
  if (piped) close(ends[0]);
  if (pid_ < 0) {
    if (piped) close(ends[1]);
    throw Error(fmt::format("workers cannot be started: {}; see ulimit -n and ulimit -u",
                            std::strerror(cause)));
  }
  pipe_ = ends[1];
}

Guardian::~Guardian() {
  close(pipe_);
  // One that was stopped (SIGSTOP) would never end. All workers have ended by now.
  const int process = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  pollfd ended = {process, POLLIN, 0};
  if (process < 0 || poll(&ended, 1, kMostMilliseconds) != 1) kill(pid_, SIGKILL);
  if (process >= 0) close(process);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

void Guardian::mark_this_process() const {
  close(pipe_);
  const char* const above = std::getenv(kMarkVariable);
  setenv(kMarkVariable,
         above == nullptr ? mark_.c_str() : fmt::format("{},{}", above, mark_).c_str(), 1);
}

void Guardian::started(int pid) const {
  tell(pid);
}

void Guardian::ended(int pid) const {
  tell(-pid);
}

void Guardian::tell(int pid) const {
  while (write(pipe_, &pid, sizeof pid) < 0 && errno == EINTR) continue;
}

}  // namespace lockstep::launch
