#include "launch/outlet.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace lockstep::launch {
namespace {

constexpr size_t kMostKept = size_t{256} << 10;
// A pipe that is ready for writing takes this much without blocking.
constexpr size_t kPiece = PIPE_BUF;

}  // namespace

void Outlet::put(std::string_view text) {
  if (!unread_) kept_ += text;
}

bool Outlet::full() const {
  return kept_.size() >= kMostKept;
}

void Outlet::drain() {
  size_t gone = 0;
  while (gone < kept_.size()) {
    pollfd now = waits_for();
    if (poll(&now, 1, 0) <= 0) break;
    const ssize_t written =
        write(stream_, kept_.data() + gone, std::min(kPiece, kept_.size() - gone));
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) break;
    unread_ = written < 0;
    gone = unread_ ? kept_.size() : gone + static_cast<size_t>(written);
  }
  kept_.erase(0, gone);
}

}  // namespace lockstep::launch
