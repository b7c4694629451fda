#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::net {

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

/// An IPv4 or IPv6 address with its port.
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

/// All addresses of a host name. Throws BadInput when there is no such name; empty when the name
/// service does not answer for the moment.
std::vector<Address> resolve(const std::string& host, uint16_t port);

/// Listens at `host`:`port`, for IPv4 and IPv6 where the machine has both; at all addresses when
/// `host` is empty or not this machine's. Throws BadInput when the port is in use.
Descriptor listen_at(const std::string& host, uint16_t port);

/// A port of this machine's loopback interface that is not in use at the moment.
uint16_t free_port();

/// Begins to connect: the socket becomes writable once that has succeeded or failed. Sets errno
/// when it cannot even begin.
Descriptor start_connecting(const Address& to);
/// How that ended: 0, or an errno.
int connecting_error(int socket);

/// The next connection at a listening socket; sets errno when there is none. Like all sockets here,
/// it does not block, is not inherited by child processes, and does not delay small messages.
Descriptor accept_from(int listener);

/// For large messages between processes of one machine: larger buffers, where the system allows
/// them.
void enlarge_buffers(int socket);

Address local_address(int socket);
Address remote_address(int socket);

/// Addresses of this machine's interfaces that are up, loopback last.
std::vector<std::string> interface_addresses();

/// The result of one attempt to send or receive.
struct Moved {
  size_t bytes = 0;
  /// The other end closed the connection, or it broke.
  bool closed = false;
  /// The errno with which it broke; 0 when it was closed in order.
  int error = 0;
};

/// Move as much as they can without waiting. Never raise SIGPIPE.
Moved send_some(int socket, std::span<const std::byte> bytes);
Moved receive_some(int socket, std::span<std::byte> into);

/// Whether there is something to read now; false for descriptor -1.
bool is_readable(int descriptor);

/// Waits until one of `waits` is ready or `seconds` have passed.
void wait_for(std::span<pollfd> waits, double seconds);

}  // namespace lockstep::net
