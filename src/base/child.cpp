#include "base/child.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr int kDone = 0, kFailed = 1, kBadInput = 2;
constexpr char kEnd = '\n';  // of a text, which is missing where the work has called exit()

void write_all(int descriptor, const std::string& text) {
  for (size_t written = 0; written < text.size();) {
    const ssize_t count = write(descriptor, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // nobody reads
    written += static_cast<size_t>(count);
  }
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> some;
  while (true) {
    const ssize_t count = read(descriptor, some.data(), some.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(some.data(), static_cast<size_t>(count));
  }
}

[[noreturn]] void be_the_child(int result, const std::function<std::string()>& work) {
  int code = kDone;
  std::string text;
  try {
    text = work();
  } catch (const BadInput& error) {
    code = kBadInput;
    text = error.what();
  } catch (const std::exception& error) {
    code = kFailed;
    text = error.what();
  }
  write_all(result, text + kEnd);
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

std::string in_child_process(const std::function<std::string()>& work) {
  std::array<int, 2> ends = {};
  std::fflush(nullptr);
  const int pid = pipe(ends.data()) == 0 ? fork() : -1;
  if (pid < 0) throw Error(fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (pid == 0) {
    close(ends[0]);
    be_the_child(ends[1], work);
  }
  close(ends[1]);
  std::string text = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    throw Error(fmt::format("a process that measured for this one was ended by signal {}",
                            WTERMSIG(status)));
  if (!text.ends_with(kEnd))
    throw Error(fmt::format(
        "a process that measured for this one ended itself, with exit code {}: what is measured, "
        "such as a model's forward(), must return or throw",
        WEXITSTATUS(status)));
  text.pop_back();
  if (WEXITSTATUS(status) == kBadInput) throw BadInput("{}", text);
  if (WEXITSTATUS(status) != kDone) throw Error(text);
  return text;
}

}  // namespace lockstep
