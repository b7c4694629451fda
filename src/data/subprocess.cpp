#include "data/subprocess.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::data {
namespace {

using Clock = std::chrono::steady_clock;

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0)
      throw BadInput("cannot make a pipe: {}", std::strerror(errno));
  }
  ~Pipe() {
    close_read();
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void close_read() { close_end(0); }
  void close_write() { close_end(1); }

 private:
  void close_end(size_t end) {
    if (ends_[end] >= 0) close(std::exchange(ends_[end], -1));
  }
  std::array<int, 2> ends_ = {-1, -1};
};

// A child process; its destructor kills it if it is still running, and waits for it.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

// The new process's id, or 0 if there is no such program.
pid_t spawn(const std::vector<std::string>& command, const Pipe& output, const Pipe& errors) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output.write_end(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.write_end(), STDERR_FILENO);
  pid_t pid = 0;
  const int failure =
      posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure == ENOENT) return 0;
  if (failure != 0) throw BadInput("cannot run {}: {}", command[0], std::strerror(failure));
  return pid;
}

// Appends what can be read without blocking; closes the pipe at its end.
void drain(Pipe& pipe, std::string& text) {
  std::array<char, 4096> piece;
  const ssize_t got = read(pipe.read_end(), piece.data(), piece.size());
  if (got > 0) text.append(piece.data(), static_cast<size_t>(got));
  if (got == 0 || (got < 0 && errno != EINTR)) pipe.close_read();
}

}  // namespace

std::optional<ProcessResult> run_program(const std::vector<std::string>& command,
                                         std::chrono::seconds limit) {
  Pipe output;
  Pipe errors;
  const auto deadline = Clock::now() + limit;
  const pid_t pid = spawn(command, output, errors);
  if (pid == 0) return std::nullopt;
  Child child(pid);
  output.close_write();
  errors.close_write();

  ProcessResult result;
  while (output.read_end() >= 0 || errors.read_end() >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0)
      throw BadInput("`{}` did not finish within {} s; check the network and try again",
                     fmt::join(command, " "), limit.count());
    // poll ignores a descriptor of -1.
    std::array<pollfd, 2> waiting = {
        {{output.read_end(), POLLIN, 0}, {errors.read_end(), POLLIN, 0}}};
    poll(waiting.data(), waiting.size(), static_cast<int>(left));
    if (waiting[0].revents != 0) drain(output, result.output);
    if (waiting[1].revents != 0) drain(errors, result.errors);
  }
  result.exit_code = child.wait();
  // POSIX lets the new process be the one that finds no program; it then says nothing.
  constexpr int kNoSuchProgram = 127;
  if (result.exit_code == kNoSuchProgram && result.output.empty() && result.errors.empty())
    return std::nullopt;
  return result;
}

}  // namespace lockstep::data
