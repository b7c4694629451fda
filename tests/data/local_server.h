#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::data {

/// A web server of this machine that answers each request with what `answer` makes of it, then
/// closes the connection.
class LocalServer {
 public:
  using Answer = std::function<std::string(const std::string& request)>;

  explicit LocalServer(Answer answer) : answer_(std::move(answer)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        listen(listener_, 8) != 0)
      throw Error("cannot listen");
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~LocalServer() {
    shutdown(listener_, SHUT_RDWR);  // ends accept
    thread_.join();
    close(listener_);
  }
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  std::string url() const { return fmt::format("http://127.0.0.1:{}/file.tgz", port_); }

  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void run() {
    while (true) {
      const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      serve(connection);
      close(connection);
    }
  }

  void serve(int connection) {
    std::string request;
    char piece[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = recv(connection, piece, sizeof piece, 0);
      if (got <= 0) return;
      request.append(piece, static_cast<size_t>(got));
    }
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    const std::string answer = answer_(request);
    for (size_t done = 0; done < answer.size();) {
      const ssize_t sent =
          send(connection, answer.data() + done, answer.size() - done, MSG_NOSIGNAL);
      if (sent <= 0) return;
      done += static_cast<size_t>(sent);
    }
  }

  // Constant after construction.
  const Answer answer_;
  int listener_ = -1;
  int port_ = 0;

  // Guarded by mutex_.
  std::mutex mutex_;
  std::vector<std::string> requests_;

  std::thread thread_;
};

/// Answers as a server that can continue a file from the middle.
inline std::string serve_with_ranges(const std::string& request, const std::string& file) {
  const std::string key = "Range: bytes=";
  const size_t at = request.find(key);
  if (at == std::string::npos)
    return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", file.size(), file);
  const size_t start = std::stoul(request.substr(at + key.size()));
  if (start >= file.size())
    return fmt::format(
        "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */{}\r\nContent-Length: "
        "0\r\n\r\n",
        file.size());
  return fmt::format(
      "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {}-{}/{}\r\nContent-Length: "
      "{}\r\n\r\n{}",
      start, file.size() - 1, file.size(), file.size() - start, file.substr(start));
}

}  // namespace lockstep::data
