// Words: the `line` from a launcher to one on another host is that one's stdin. Its first line is
// the job, each other one the number of a signal; it is closed when the launcher ends or the
// connection is lost.
#include "launch/remote_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/deadline.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

using nlohmann::json;

constexpr double kJobSeconds = 30;

// Byte by byte, so that nothing of the lines after it is taken.
std::string read_first_line() {
  const Deadline deadline = Deadline::in(kJobSeconds);
  std::string line;
  while (true) {
    pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, static_cast<int>(deadline.left() * 1000) + 1) == 0)
      throw BadInput("--remote: no job arrived on stdin within {:g} s; use lockstep run --hosts",
                     kJobSeconds);
    char next = 0;
    const ssize_t count = read(STDIN_FILENO, &next, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw BadInput("--remote: stdin ended before a job; use lockstep run --hosts");
    if (next == '\n') return line;
    line += next;
  }
}

// Passes on what arrives over the line to the launcher, which is its parent.
[[noreturn]] void watch(int line, int launcher) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(0);
  prctl(PR_SET_NAME, "lockstep-line");
  setsid();
  dup2(line, STDIN_FILENO);
  const int nothing = open("/dev/null", O_RDWR);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, stream);
  syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);
  std::string text;
  for (char next = 0; true;) {
    const ssize_t count = read(STDIN_FILENO, &next, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    if (next != '\n') {
      text += next;
      continue;
    }
    kill(launcher, std::atoi(text.c_str()));
    text.clear();
  }
  kill(launcher, SIGKILL);
  _exit(0);
}

void watch_the_line() {
  const int line = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (line < 0 || nothing < 0 || dup2(nothing, STDIN_FILENO) < 0)
    throw Error(fmt::format("cannot open /dev/null: {}", std::strerror(errno)));
  const int launcher = getpid();
  const int watcher = fork();
  if (watcher == 0) watch(line, launcher);
  if (watcher < 0)
    throw Error(fmt::format("cannot start a process: {}; see ulimit -u", std::strerror(errno)));
  close(line);
  close(nothing);
}

}  // namespace

std::string ready_line() {
  return fmt::format("lockstep {} is ready to start workers", LOCKSTEP_VERSION);
}

std::string encode(const RemoteJob& job) {
  const json all = {{"host", job.host},
                    {"folder", job.folder},
                    {"environment", job.environment},
                    {"program", job.program},
                    {"workers", job.workers},
                    {"rank", job.first.rank},
                    {"world", job.first.world},
                    {"master_host", job.first.master_host},
                    {"master_port", job.first.master_port},
                    {"key", job.first.key}};
  try {
    return all.dump() + "\n";
  } catch (const json::exception& error) {
    throw BadInput("--hosts: folder, program and LOCKSTEP_* variables must be UTF-8: {}",
                   error.what());
  }
}

RemoteJob parse_remote_job(const std::string& line) {
  try {
    const json all = json::parse(line);
    RemoteJob job{.host = all.at("host"),
                  .folder = all.at("folder"),
                  .environment = all.at("environment"),
                  .program = all.at("program"),
                  .workers = all.at("workers"),
                  .first = {.rank = all.at("rank"),
                            .world = all.at("world"),
                            .master_host = all.at("master_host"),
                            .master_port = all.at("master_port"),
                            .key = all.at("key"),
                            .launcher = "lockstep"}};
    return job;
  } catch (const json::exception&) {
    throw BadInput("--remote: stdin has no job; use lockstep run --hosts");
  }
}

std::vector<Job> jobs_of(const RemoteJob& job) {
  std::vector<Job> jobs;
  for (int local = 0; local < job.workers; ++local) {
    jobs.push_back(job.first);
    jobs.back().rank += local;
    jobs.back().local_rank = local;
  }
  return jobs;
}

std::vector<std::pair<std::string, std::string>> environment_for_others() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const size_t equals = text.find('=');
    if (!text.starts_with("LOCKSTEP_") || text.starts_with("LOCKSTEP_LAUNCHER_")) continue;
    if (equals == std::string_view::npos) continue;
    variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

RemoteJob receive_remote_job() {
  RemoteJob job = parse_remote_job(read_first_line());
  watch_the_line();
  fmt::print("{}\n", ready_line());
  std::fflush(stdout);
  return job;
}

}  // namespace lockstep::launch
