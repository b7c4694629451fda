#include "launch/ssh.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/deadline.h"
#include "launch/signals.h"
#include "lockstep/error.h"
#include "net/socket.h"

// Words: the *launcher there* is the one on the other host. It is `ready` when its ready line has
// arrived; until then, what ssh writes on stderr is kept, as the reason why it is not.
namespace lockstep::launch {
namespace {

// Of ssh itself, as opposed to those of the program that it runs.
constexpr int kSshFailed = 255;
constexpr int kNoSuchProgram = 127;
// Not that of workers that lost others: it was this host that failed.
constexpr int kUnreachable = 69;  // sysexits.h: a service is unavailable

// As one word of a shell's command line.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char each : word) text += each == '\'' ? std::string("'\\''") : std::string(1, each);
  return text + "'";
}

struct Pipe {
  net::Descriptor read_end;
  net::Descriptor write_end;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(fmt::format("cannot make a pipe: {}; see ulimit -n", std::strerror(errno)));
  return {net::Descriptor(ends[0]), net::Descriptor(ends[1])};
}

void write_all(int stream, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(stream, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;  // nobody reads it any more
    text.remove_prefix(static_cast<size_t>(written));
  }
}

// What arrives from ssh on one of its streams, line by line, so that lines of several hosts do not
// mix.
class Stream {
 public:
  explicit Stream(net::Descriptor from) : from_(std::move(from)) {
    fcntl(from_.get(), F_SETFL, O_NONBLOCK);
  }

  pollfd waits_for() const { return {.fd = open_ ? from_.get() : -1, .events = POLLIN}; }

  /// The complete lines that have arrived; at the end also an incomplete one.
  std::string take_lines() {
    std::array<char, 1 << 16> piece;
    while (open_) {
      const ssize_t count = read(from_.get(), piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) break;
      if (count == 0) open_ = false;
      text_.append(piece.data(), static_cast<size_t>(count));
    }
    const size_t end = open_ ? text_.rfind('\n') + 1 : text_.size();
    std::string lines = text_.substr(0, end);
    text_.erase(0, end);
    return lines;
  }
  std::string take_rest() {
    std::string lines = take_lines();
    return lines + std::exchange(text_, "");
  }

 private:
  net::Descriptor from_;
  std::string text_;
  bool open_ = true;
};

class SshConnection {
 public:
  /// What the workers there print; if it is kept, all of the job must end before the deadline.
  enum class Output { passed_on, kept };

  SshConnection(const RemoteJob& job, const SshOptions& options, Output output);
  ~SshConnection();
  SshConnection(const SshConnection&) = delete;
  SshConnection& operator=(const SshConnection&) = delete;

  int until_the_end();
  /// All that was said there and not passed on, without the last line's end.
  std::string said() const;

 private:
  [[noreturn]] void become_ssh(int parent, int in, int out, int err) const;
  void wait();
  void send_some();
  void pass_on(const std::string& output, const std::string& errors);
  std::string take_ready_line(const std::string& output);
  std::optional<int> ended();
  [[noreturn]] void fail_to_connect(int status) const;

  const RemoteJob& job_;
  const SshOptions& options_;
  const Output output_;
  const Signals signals_;
  const Deadline deadline_;
  std::string unsent_;
  net::Descriptor to_;
  std::optional<Stream> out_;
  std::optional<Stream> err_;
  int pid_ = -1;
  net::Descriptor process_;
  bool ready_ = false;
  std::string early_output_;  ///< before the ready line
  std::string reason_;
};

SshConnection::SshConnection(const RemoteJob& job, const SshOptions& options, Output output)
    : job_(job),
      options_(options),
      output_(output),
      deadline_(Deadline::in(options.connect_seconds)),
      unsent_(encode(job)) {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  const int parent = getpid();
  pid_ = fork();
  if (pid_ == 0) become_ssh(parent, in.read_end.get(), out.write_end.get(), err.write_end.get());
  if (pid_ < 0)
    throw Error(fmt::format("cannot start ssh: {}; see ulimit -u", std::strerror(errno)));
  process_ = net::Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  to_ = std::move(in.write_end);
  fcntl(to_.get(), F_SETFL, O_NONBLOCK);
  out_.emplace(std::move(out.read_end));
  err_.emplace(std::move(err.read_end));
}

SshConnection::~SshConnection() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

// In a group of its own, so that signals reach the launcher there and do not end the connection. It
// asks nobody for passwords: there is no terminal to ask at.
void SshConnection::become_ssh(int parent, int in, int out, int err) const {
  signals_.restore();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  setpgid(0, 0);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  std::string command = fmt::format("exec {}", options_.command);
  const bool is_openssh = options_.command == "ssh" || options_.command.starts_with("ssh ");
  if (is_openssh)
    command += " -o BatchMode=yes -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -T";
  command += fmt::format(" {} {}", quoted(job_.host),
                         quoted(fmt::format("exec {} run --remote", quoted(options_.lockstep))));
  execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  _exit(kNoSuchProgram);
}

void SshConnection::wait() {
  std::array<pollfd, 5> waits = {
      signals_.waits_for(), out_->waits_for(), err_->waits_for(),
      pollfd{.fd = process_.get(), .events = POLLIN, .revents = 0},
      pollfd{.fd = unsent_.empty() ? -1 : to_.get(), .events = POLLOUT, .revents = 0}};
  const int milliseconds =
      ready_ && output_ == Output::passed_on ? -1 : static_cast<int>(deadline_.left() * 1000) + 1;
  poll(waits.data(), waits.size(), milliseconds);
}

void SshConnection::send_some() {
  while (!unsent_.empty()) {
    const ssize_t written = write(to_.get(), unsent_.data(), unsent_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno != EAGAIN) unsent_.clear();  // ssh has ended, or is about to
    if (written <= 0) return;
    unsent_.erase(0, static_cast<size_t>(written));
  }
}

// What a shell's start-up files print before that is shown as errors.
std::string SshConnection::take_ready_line(const std::string& output) {
  early_output_ += output;
  const std::string line = ready_line() + "\n";
  const size_t found = early_output_.find(line);
  if (found == std::string::npos) return "";
  ready_ = true;
  if (output_ == Output::passed_on)
    write_all(STDERR_FILENO, early_output_.substr(0, found) + reason_);
  return early_output_.substr(found + line.size());
}

void SshConnection::pass_on(const std::string& output, const std::string& errors) {
  const std::string after_ready = ready_ ? output : take_ready_line(output);
  if (ready_ && output_ == Output::passed_on) {
    write_all(STDOUT_FILENO, after_ready);
    write_all(STDERR_FILENO, errors);
  } else {
    reason_ += errors;
  }
}

std::string SshConnection::said() const {
  std::string all = ready_ ? reason_ : reason_ + early_output_;
  while (all.ends_with('\n') || all.ends_with('\r')) all.pop_back();
  return all;
}

std::optional<int> SshConnection::ended() {
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  return WIFSIGNALED(status) ? kSshFailed : WEXITSTATUS(status);
}

int SshConnection::until_the_end() {
  while (true) {
    wait();
    send_some();
    if (const int signal = signals_.take(); signal != 0) {
      if (!ready_) return 128 + signal;
      unsent_ += fmt::format("{}\n", signal);
      send_some();
    }
    const std::optional<int> code = ended();
    pass_on(code ? out_->take_rest() : out_->take_lines(),
            code ? err_->take_rest() : err_->take_lines());
    if (code && !ready_) fail_to_connect(*code);
    if (code && *code != kSshFailed) return *code;
    if (code)
      throw HostFailed(job_.host,
                       "the connection over ssh was lost; its workers are killed there as soon as "
                       "that is noticed",
                       "check the network between the hosts, then start again", kUnreachable);
    if ((!ready_ || output_ == Output::kept) && deadline_.passed())
      throw HostFailed(job_.host,
                       fmt::format("did not answer within {:g} s", options_.connect_seconds),
                       fmt::format("check that it runs and that `{} {} true` ends at once",
                                   options_.command, job_.host),
                       kUnreachable);
  }
}

void SshConnection::fail_to_connect(int status) const {
  if (status == kSshFailed)
    throw HostFailed(job_.host, fmt::format("ssh cannot connect: {}", said()),
                     fmt::format("check that `{} {} true` works without a password",
                                 options_.command, job_.host),
                     kUnreachable);
  if (status == kNoSuchProgram || status == 126)
    throw HostFailed(job_.host,
                     fmt::format("{} cannot be started there: {}", options_.lockstep, said()),
                     "install Lockstep at the same path on all hosts, or give its path by "
                     "--remote-lockstep",
                     status);
  throw HostFailed(job_.host,
                   fmt::format("{} ended with exit code {} before it started workers: {}",
                               options_.lockstep, status, said()),
                   fmt::format("check that it is Lockstep {}", LOCKSTEP_VERSION),
                   status == 0 ? 1 : status);
}

}  // namespace

HostFailed::HostFailed(const std::string& host, const std::string& failure, const std::string& cure,
                       int exit_code)
    : Error(fmt::format("host {}: {}; {}", host, failure, cure)),
      failure_(failure),
      cure_(cure),
      exit_code_(exit_code) {}

int launch_over_ssh(const RemoteJob& job, const SshOptions& options) {
  return SshConnection(job, options, SshConnection::Output::passed_on).until_the_end();
}

void try_over_ssh(const RemoteJob& job, const SshOptions& options) {
  SshConnection connection(job, options, SshConnection::Output::kept);
  if (const int code = connection.until_the_end(); code != 0)
    throw HostFailed(
        job.host,
        fmt::format("a worker there ended with exit code {}: {}", code, connection.said()),
        "make the same folders and programs available there", code);
}

}  // namespace lockstep::launch
