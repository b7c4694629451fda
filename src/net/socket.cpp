#include "net/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string_view>

#include "lockstep/error.h"

namespace lockstep::net {
namespace {

constexpr int kBacklog = 4096;
constexpr int kBuffer = 4 << 20;

bool send_at_once(int socket) {
  const int on = 1;
  return setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
}

int largest_buffer(const std::string& name) {
  int bytes = 0;
  std::ifstream("/proc/sys/net/core/" + name) >> bytes;
  return bytes;
}

Address any_address(int family, uint16_t port) {
  Address address;
  address.storage.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port = htons(port);
    address.size = sizeof(sockaddr_in6);
  } else {
    reinterpret_cast<sockaddr_in&>(address.storage).sin_port = htons(port);
    address.size = sizeof(sockaddr_in);
  }
  return address;
}

// Sets errno when it cannot.
Descriptor try_listen(const Address& at) {
  Descriptor socket(
      ::socket(at.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket) return {};
  const int on = 1;
  const int off = 0;
  // A job started right after another one must not wait until the system forgets old connections.
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at.storage.ss_family == AF_INET6)
    setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(socket.get(), at.get(), at.size) != 0 || listen(socket.get(), kBacklog) != 0) return {};
  return socket;
}

[[noreturn]] void refuse_port(const std::string& host, uint16_t port, int cause) {
  const std::string where = fmt::format("{}:{}", host.empty() ? "*" : host, port);
  if (cause == EADDRINUSE)
    throw BadInput(
        "{}: the port is in use on this machine (by another worker with rank 0?); choose another "
        "port, or stop what listens there "
        "(ss -ltnp 'sport = :{}' shows it)",
        where, port);
  throw BadInput("{}: cannot listen: {}; choose another address or port", where,
                 std::strerror(cause));
}

Descriptor listen_anywhere(const std::string& host, uint16_t port) {
  for (const int family : {AF_INET6, AF_INET}) {
    if (Descriptor socket = try_listen(any_address(family, port))) return socket;
    if (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL) break;
  }
  refuse_port(host, port, errno);
}

// Debian gives a machine's own name a loopback address, which other machines would not reach.
bool hides_behind_loopback(const std::string& host, const Address& address) {
  return address.is_loopback() && host != "localhost" && host != address.host();
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

uint16_t Address::port() const {
  if (storage.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

std::string Address::host() const {
  std::array<char, NI_MAXHOST> name = {};
  if (size == 0 || getnameinfo(get(), size, name.data(), name.size(), nullptr, 0, NI_NUMERICHOST))
    return "unknown";
  const std::string text = name.data();
  constexpr std::string_view kMapped = "::ffff:";
  return text.starts_with(kMapped) ? text.substr(kMapped.size()) : text;
}

std::string Address::text() const {
  const std::string name = host();
  return name.find(':') == std::string::npos ? fmt::format("{}:{}", name, port())
                                             : fmt::format("[{}]:{}", name, port());
}

bool Address::is_loopback() const {
  const std::string name = host();
  return name == "::1" || name.starts_with("127.");
}

std::vector<Address> resolve(const std::string& host, uint16_t port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error == EAI_AGAIN) return {};
  if (error != 0)
    throw BadInput("{}: no such host ({}); check the master's address", host, gai_strerror(error));
  std::vector<Address> addresses;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    Address& address = addresses.emplace_back();
    std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
    address.size = at->ai_addrlen;
  }
  freeaddrinfo(found);
  return addresses;
}

Descriptor listen_at(const std::string& host, uint16_t port) {
  if (host.empty()) return listen_anywhere(host, port);
  for (const Address& address : resolve(host, port)) {
    if (hides_behind_loopback(host, address)) return listen_anywhere(host, port);
    if (Descriptor socket = try_listen(address)) return socket;
    if (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT) refuse_port(host, port, errno);
  }
  return listen_anywhere(host, port);
}

uint16_t free_port() {
  const Descriptor socket = listen_at("127.0.0.1", 0);
  return local_address(socket.get()).port();
}

Descriptor start_connecting(const Address& to) {
  Descriptor socket(
      ::socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket || !send_at_once(socket.get())) return {};
  if (connect(socket.get(), to.get(), to.size) != 0 && errno != EINPROGRESS) return {};
  return socket;
}

int connecting_error(int socket) {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

Descriptor accept_from(int listener) {
  Descriptor socket(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) send_at_once(socket.get());
  return socket;
}

void enlarge_buffers(int socket) {
  // Buffers that hold much keep either side from waiting for the other. But where the system allows
  // less, asking for it would end with less than the kernel gives by itself.
  if (largest_buffer("rmem_max") < kBuffer || largest_buffer("wmem_max") < kBuffer) return;
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kBuffer, sizeof kBuffer);
  setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &kBuffer, sizeof kBuffer);
}

Address local_address(int socket) {
  Address address;
  address.size = sizeof address.storage;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0)
    address.size = 0;
  return address;
}

Address remote_address(int socket) {
  Address address;
  address.size = sizeof address.storage;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0)
    address.size = 0;
  return address;
}

std::vector<std::string> interface_addresses() {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return {};
  std::vector<std::string> outside;
  std::vector<std::string> loopback;
  for (const ifaddrs* at = found; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || !(at->ifa_flags & IFF_UP)) continue;
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Address address;
    address.size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, at->ifa_addr, address.size);
    const std::string host = address.host();
    // Link-local addresses name an interface of this machine: elsewhere they mean nothing.
    if (host.find('%') != std::string::npos) continue;
    (address.is_loopback() ? loopback : outside).push_back(host);
  }
  freeifaddrs(found);
  outside.insert(outside.end(), loopback.begin(), loopback.end());
  return outside;
}

namespace {

Moved moved(ssize_t result) {
  if (result >= 0) return {.bytes = static_cast<size_t>(result)};
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS) return {};
  return {.closed = true, .error = errno};
}

}  // namespace

Moved send_some(int socket, std::span<const std::byte> bytes) {
  return moved(send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

Moved receive_some(int socket, std::span<std::byte> into) {
  const ssize_t result = recv(socket, into.data(), into.size(), MSG_DONTWAIT);
  if (result == 0 && !into.empty()) return {.closed = true};
  return moved(result);
}

bool is_readable(int descriptor) {
  pollfd wait = {.fd = descriptor, .events = POLLIN, .revents = 0};
  return descriptor >= 0 && poll(&wait, 1, 0) > 0;
}

void wait_for(std::span<pollfd> waits, double seconds) {
  const double milliseconds = std::ceil(std::clamp(seconds, 0.0, 3600.0) * 1000);
  poll(waits.data(), waits.size(), static_cast<int>(milliseconds));
}

}  // namespace lockstep::net
