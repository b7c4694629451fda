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
constexpr std::string_view kStackFrame = "frame #";  // of LibTorch's errors, after the message
constexpr size_t kLongestLine = size_t{64} << 10;    // longer ones are split, to bound memory

constexpr size_t kPumped = size_t{64} << 10;

}  // namespace

OutputLine::OutputLine(int stream, Outlet& outlet, std::string prefix)
    : stream_(stream), outlet_(&outlet), prefix_(std::move(prefix)) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(fmt::format("cannot make a pipe for a worker's output: {}; see ulimit -n",
                            std::strerror(errno)));
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
      outlet_(other.outlet_),
      prefix_(std::move(other.prefix_)),
      read_end_(std::exchange(other.read_end_, -1)),
      write_end_(std::exchange(other.write_end_, -1)),
      rest_(std::move(other.rest_)),
      tail_(std::move(other.tail_)) {}

void OutputLine::become_stream() const {
  dup2(write_end_, stream_);
}

void OutputLine::close_worker_end() {
  close(std::exchange(write_end_, -1));
}

void OutputLine::pump() {
  if (wanted()) read_at_most(kPumped);
}

// At most what a pipe holds, since processes that the worker started may still be writing.
void OutputLine::finish() {
  if (read_end_ >= 0) read_at_most(static_cast<size_t>(fcntl(read_end_, F_GETPIPE_SZ)));
  end();
}

void OutputLine::read_at_most(size_t bytes) {
  char piece[16 * 1024];
  for (size_t taken = 0; taken < bytes;) {
    const ssize_t count = read(read_end_, piece, sizeof piece);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return end();
    taken += static_cast<size_t>(count);
    pass_on({piece, static_cast<size_t>(count)});
  }
}

void OutputLine::end() {
  if (read_end_ >= 0) close(std::exchange(read_end_, -1));
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
  outlet_->put(fmt::format("{}{}\n", prefix_, line));
  if (line.starts_with(kStackFrame)) return;
  tail_.emplace_back(line);
  if (tail_.size() > kTailLines) tail_.pop_front();
}

}  // namespace lockstep::launch
