#include "transport/tcp/tcp_stream.h"

#include <fmt/ranges.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace lockstep::transport {
namespace {

constexpr size_t kPiece = size_t{1} << 20;
constexpr size_t kBlock = 64;

std::string text(const Label& label, size_t bytes) {
  return fmt::format("{} bytes labelled [{}]", bytes, fmt::join(label.words, " "));
}

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS;
}

// Sends header and payload in one call; either may have been sent already.
class Pieces {
 public:
  void add(const std::byte* at, size_t bytes) {
    if (bytes > 0) pieces_[count_++] = {const_cast<std::byte*>(at), bytes};
  }
  msghdr* get() {
    message_.msg_iov = pieces_.data();
    message_.msg_iovlen = count_;
    return &message_;
  }

 private:
  std::array<iovec, 2> pieces_;
  size_t count_ = 0;
  msghdr message_ = {};
};

}  // namespace

void TcpStream::clear() {
  sending_.clear();
  receiving_.clear();
  next_sending_ = 0;
  next_receiving_ = 0;
}

void TcpStream::add(const Sending& message) {
  sending_.push_back({encode(message.header), message.from, message.bytes});
}

TcpStream::Moved TcpStream::send() {
  Out& out = sending_[next_sending_];
  const size_t of_header = std::min(out.moved, kMessageHeaderBytes);
  const size_t of_payload = out.moved - of_header;
  Pieces pieces;
  pieces.add(out.header.data() + of_header, kMessageHeaderBytes - of_header);
  pieces.add(out.from + of_payload, std::min(out.bytes - of_payload, kPiece));
  const ssize_t sent = sendmsg(socket_.get(), pieces.get(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return would_block() ? Moved::nothing : Moved::broken;
  out.moved += static_cast<size_t>(sent);
  if (out.moved == kMessageHeaderBytes + out.bytes) ++next_sending_;
  return Moved::moved;
}

TcpStream::Moved TcpStream::receive(std::span<std::byte> staging) {
  In& in = receiving_[next_receiving_];
  const size_t before = in.moved;
  const size_t payload = before - std::min(before, kMessageHeaderBytes);
  const size_t left = in.message.bytes - payload;
  if (in.message.combine == nullptr) {
    const Moved outcome = receive_into(in, {in.message.into + payload, left});
    if (in.moved == kMessageHeaderBytes + in.message.bytes) ++next_receiving_;
    return outcome;
  }
  if (in.carried > 0) std::memcpy(staging.data(), carry_.data(), in.carried);
  const Moved outcome =
      receive_into(in, staging.subspan(in.carried, std::min(staging.size() - in.carried, left)));
  const size_t now = in.moved - std::min(in.moved, kMessageHeaderBytes);
  if (now > payload) combine(in, staging, now - payload);
  if (in.moved == kMessageHeaderBytes + in.message.bytes) ++next_receiving_;
  return outcome;
}

TcpStream::Moved TcpStream::receive_into(In& in, std::span<std::byte> window) {
  const size_t of_header = std::min(in.moved, kMessageHeaderBytes);
  Pieces pieces;
  pieces.add(header_.data() + of_header, kMessageHeaderBytes - of_header);
  pieces.add(window.data(), window.size());
  const ssize_t received = recvmsg(socket_.get(), pieces.get(), MSG_DONTWAIT);
  if (received < 0) return would_block() ? Moved::nothing : Moved::broken;
  if (received == 0) return Moved::broken;
  in.moved += static_cast<size_t>(received);
  if (of_header < kMessageHeaderBytes && in.moved >= kMessageHeaderBytes) check(in);
  return Moved::moved;
}

// `staging` holds the carried bytes followed by those that `arrived`: complete blocks are combined
// while they are in the cache, and the rest is carried.
void TcpStream::combine(In& in, std::span<std::byte> staging, size_t arrived) {
  const size_t end = in.moved - kMessageHeaderBytes;
  const size_t begin = end - arrived - in.carried;
  const size_t held = in.carried + arrived;
  const size_t whole = end == in.message.bytes ? held : held / kBlock * kBlock;
  if (whole > 0) in.message.combine(in.message.into + begin, staging.data(), whole);
  in.carried = held - whole;
  if (in.carried > 0) std::memcpy(carry_.data(), staging.data() + whole, in.carried);
}

void TcpStream::check(const In& in) const {
  const std::optional<MessageHeader> theirs = parse_message_header(header_);
  if (!theirs)
    throw Error(fmt::format("{} sent an invalid message header; check its memory and the network",
                            peer_->text()));
  const MessageHeader& expected = in.message.header;
  if (theirs->label == expected.label && theirs->bytes == expected.bytes &&
      theirs->part == expected.part)
    return;
  throw Disagreement(
      rank_, theirs->label, theirs->bytes,
      fmt::format("{} sent {}, but {} were expected: the ranks call different collectives",
                  peer_->text(), text(theirs->label, theirs->bytes),
                  text(expected.label, expected.bytes)));
}

pollfd TcpStream::waits_for() const {
  return {.fd = socket_.get(),
          .events = static_cast<short>((sends() ? POLLOUT : 0) | (receives() ? POLLIN : 0))};
}

}  // namespace lockstep::transport
