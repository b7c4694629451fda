#include "launch/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr size_t kTailLines = 12;
constexpr size_t kLongestLine = size_t{64} << 10;  // longer ones are cut, so that memory is bounded

void write_all(int stream, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(stream, text.data(), text.size());
    if (written < 0 && errno == EAGAIN) {
      pollfd until_it_takes_more{stream, POLLOUT, 0};
      poll(&until_it_takes_more, 1, -1);
      continue;
    }
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;  // nobody reads it any more, which is no reason to stop a job
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

OutputLine::OutputLine(int stream, std::string prefix)
    : stream_(stream), prefix_(std::move(prefix)) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(
        fmt::format("no pipe for a worker's output: {}; see ulimit -n", std::strerror(errno)));
  read_end_ = ends[0];
  write_end_ = ends[1];
  fcntl(read_end_, F_SETFL, O_NONBLOCK);
}

OutputLine::~OutputLine() {
  if (read_end_ >= 0) close(read_end_);
  if (write_end_ >= 0) close(write_end_);
}

OutputLine::OutputLine(OutputLine&& other) noexcept
    : stream_(other.stream_),
      prefix_(std::move(other.prefix_)),
      read_end_(std::exchange(other.read_end_, -1)),
      write_end_(std::exchange(other.write_end_, -1)),
      rest_(std::move(other.rest_)),
      tail_(std::move(other.tail_)) {}

void OutputLine::become_stream() {
  dup2(write_end_, stream_);
}

void OutputLine::close_worker_end() {
  close(std::exchange(write_end_, -1));
}

void OutputLine::pump() {
  char piece[16 * 1024];
  while (open()) {
    const ssize_t count = read(read_end_, piece, sizeof piece);
    if (count > 0) {
      pass_on({piece, static_cast<size_t>(count)});
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      close(std::exchange(read_end_, -1));
      flush();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

void OutputLine::flush() {
  if (!rest_.empty()) write_line(std::exchange(rest_, {}));
}

void OutputLine::pass_on(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    rest_ += text.substr(0, end);
    if (end == std::string_view::npos && rest_.size() < kLongestLine) return;
    write_line(std::exchange(rest_, {}));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

void OutputLine::write_line(std::string_view line) {
  write_all(stream_, fmt::format("{}{}\n", prefix_, line));
  tail_.emplace_back(line);
  if (tail_.size() > kTailLines) tail_.pop_front();
}

}  // namespace lockstep::launch
