#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "temporary_folder.h"

namespace lockstep {

struct CommandResult {
  int exit_code;
  std::string out;
  std::string err;
};

enum class Terminal { there, gone, without_stdout };

/// A child process whose output goes to files in a folder of its own; where the terminal is gone,
/// its standard descriptors are closed, or only stdout.
class Child {
 public:
  explicit Child(std::vector<std::string> arguments, Terminal terminal = Terminal::there,
                 const std::string& program = LOCKSTEP_BINARY) {
    arguments.insert(arguments.begin(), program);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    if (chdir(folder_.path().c_str()) != 0) _exit(126);
    if (freopen("out", "w", stdout) == nullptr || freopen("err", "w", stderr) == nullptr)
      _exit(126);
    if (terminal == Terminal::gone)
      for (const int descriptor : {0, 1, 2}) close(descriptor);
    if (terminal == Terminal::without_stdout) close(1);
    execv(argv[0], argv.data());
    _exit(127);
  }

  pid_t pid() const { return pid_; }
  const TemporaryFolder& folder() const { return folder_; }

  /// What it has written so far.
  std::string out() const { return so_far("out"); }
  std::string err() const { return so_far("err"); }

  CommandResult wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            read_file(folder_ / "out"), read_file(folder_ / "err")};
  }

 private:
  std::string so_far(const char* file) const {
    return std::filesystem::exists(folder_ / file) ? read_file(folder_ / file) : "";
  }

  TemporaryFolder folder_;
  pid_t pid_ = -1;
};

inline CommandResult lockstep_command(std::vector<std::string> arguments) {
  return Child(std::move(arguments)).wait();
}

inline std::vector<std::string> joined(std::vector<std::string> first,
                                       const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Whether the command ends with exit code 2, `reason` on stderr and nothing on stdout.
inline ::testing::AssertionResult refuses(std::vector<std::string> arguments,
                                          const std::string& reason) {
  const CommandResult outcome = lockstep_command(std::move(arguments));
  if (outcome.exit_code == 2 && outcome.err.find(reason) != std::string::npos &&
      outcome.out.empty())
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "exit code " << outcome.exit_code << ", stderr: " << outcome.err;
}

}  // namespace lockstep
