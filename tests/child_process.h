#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <stdexcept>
#include <string>

#include "base/deadline.h"

namespace lockstep {

/// A forked process that runs a function, and says lines to its parent.
class ChildProcess {
 public:
  using Say = std::function<void(const std::string&)>;

  explicit ChildProcess(const std::function<void(const Say&)>& body) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    from_ = ends[0];
    pid_ = fork();
    if (pid_ == 0) run(body, ends[1]);
    close(ends[1]);
  }
  ~ChildProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(from_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void send(int signal) const { kill(pid_, signal); }
  pid_t pid() const { return pid_; }

  /// The next line it says; "" when it says none in time.
  std::string line(double seconds = 10) {
    const Deadline deadline = Deadline::in(seconds);
    while (text_.find('\n') == std::string::npos) {
      pollfd wait = {.fd = from_, .events = POLLIN, .revents = 0};
      if (poll(&wait, 1, static_cast<int>(deadline.left() * 1000)) <= 0) return "";
      char piece[4096];
      const ssize_t got = read(from_, piece, sizeof piece);
      if (got <= 0) return "";
      text_.append(piece, static_cast<size_t>(got));
    }
    const size_t end = text_.find('\n');
    std::string said = text_.substr(0, end);
    text_.erase(0, end + 1);
    return said;
  }

 private:
  [[noreturn]] static void run(const std::function<void(const Say&)>& body, int to) {
    const Say say = [to](const std::string& text) {
      const std::string whole = text + "\n";
      if (write(to, whole.data(), whole.size()) < 0) _exit(1);
    };
    try {
      body(say);
    } catch (const std::exception& error) {
      say(std::string("threw ") + error.what());
    }
    _exit(0);
  }

  pid_t pid_ = -1;
  int from_ = -1;
  std::string text_;
};

}  // namespace lockstep
