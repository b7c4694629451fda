#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::transport {

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

/// Where to connect to, or where a connection comes from: IPv4 or IPv6, with its port.
struct Address {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  uint16_t port() const;
  /// Without the port: "10.0.0.7", "fe80::1".
  std::string host() const;
  /// "10.0.0.7:29500", "[fe80::1]:29500".
  std::string text() const;
  bool is_loopback() const;
};

/// All addresses a name stands for. Throws BadInput when there is no such name; nothing when the
/// name service does not answer now and may later.
std::vector<Address> resolve(const std::string& host, uint16_t port);

/// Listens at `host`:`port`, for IPv4 and IPv6 where the machine has both; at all addresses when
/// `host` is empty or not this machine's. Throws BadInput when the port is taken.
Descriptor listen_at(const std::string& host, uint16_t port);

/// A connection that is being made: writable once it stands or failed. Sets errno when it cannot
/// even begin.
Descriptor start_connecting(const Address& to);
/// How it ended: 0, or an errno.
int connecting_error(int socket);

/// One that came in at a listening socket; sets errno when there is none. Like all sockets here, it
/// does not block, is not inherited by child processes, and sends at once.
Descriptor accept_from(int listener);

/// For large messages between processes of one machine.
void suit_same_machine(int socket);

Address local_address(int socket);
Address remote_address(int socket);

/// Addresses of this machine's interfaces that are up, loopback last.
std::vector<std::string> interface_addresses();

/// What one attempt to move bytes came to.
struct Moved {
  size_t bytes = 0;
  /// The other end closed, or the connection broke: nothing will ever move again.
  bool closed = false;
  /// Why it broke; 0 when it was closed in order.
  int error = 0;
};

/// As much as goes without waiting. Never raises SIGPIPE.
Moved send_some(int socket, std::span<const std::byte> bytes);
Moved receive_some(int socket, std::span<std::byte> into);

/// Whether there is something to read, without waiting; never for -1.
bool is_readable(int descriptor);

/// Waits until something happens at one of `waits` or `seconds` have passed.
void wait_for(std::span<pollfd> waits, double seconds);

}  // namespace lockstep::transport
