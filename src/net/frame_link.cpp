#include "net/frame_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace lockstep::net {
namespace {

// Memory grows by what has arrived, not by what a header announces.
constexpr size_t kPiece = 65536;

}  // namespace

void FrameLink::send(FrameKind kind, const std::string& payload) {
  outgoing_ += encode(FrameHeader{.kind = kind, .bytes = static_cast<uint32_t>(payload.size())});
  outgoing_ += payload;
  flush();
}

bool FrameLink::flush() {
  while (!closed_ && sent_ < outgoing_.size()) {
    const Moved moved =
        send_some(socket_.get(), std::as_bytes(std::span(outgoing_)).subspan(sent_));
    closed_ = moved.closed;
    if (moved.bytes == 0) break;
    sent_ += moved.bytes;
  }
  if (sent_ < outgoing_.size()) return closed_;
  outgoing_.clear();
  sent_ = 0;
  return true;
}

bool FrameLink::fill(std::string& into, size_t size) {
  while (into.size() < size) {
    const size_t have = into.size();
    into.resize(have + std::min(size - have, kPiece));
    const Moved moved =
        receive_some(socket_.get(), std::as_writable_bytes(std::span(into)).subspan(have));
    into.resize(have + moved.bytes);
    closed_ = closed_ || moved.closed;
    if (moved.bytes == 0) return false;
  }
  return true;
}

std::optional<Frame> FrameLink::receive() {
  if (!arriving_) {
    if (!fill(header_, kFrameHeaderBytes)) return std::nullopt;
    arriving_ = parse_frame_header(std::as_bytes(std::span(header_)));
    if (!arriving_) {
      closed_ = true;
      return std::nullopt;
    }
  }
  if (!fill(payload_, arriving_->bytes)) return std::nullopt;
  header_.clear();
  const FrameKind kind = std::exchange(arriving_, std::nullopt)->kind;
  return Frame{kind, std::exchange(payload_, {})};
}

void FrameLink::finish() {
  shutdown(socket_.get(), SHUT_WR);
}

pollfd FrameLink::waits_for() const {
  const bool sending = sent_ < outgoing_.size();
  return {.fd = closed_ ? -1 : socket_.get(),
          .events = static_cast<short>(POLLIN | (sending ? POLLOUT : 0))};
}

}  // namespace lockstep::net
