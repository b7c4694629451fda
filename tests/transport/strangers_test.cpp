#include "net/strangers.h"

#include <mutex>

#include "transport/tcp/wire.h"
#include "transport/tcp_worlds.h"

// Connections to a job's ports from programs that are no part of it.
namespace lockstep::transport {
namespace {

// A rendezvous that lets strangers connect to the ports that ranks have told each other.
class Besieged : public Rendezvous {
 public:
  Besieged(Rendezvous& inner, int count, net::Habit habit)
      : inner_(inner), count_(count), habit_(habit) {}

  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  std::string address() const override { return inner_.address(); }
  std::vector<std::string> gather(const std::string& text) override {
    std::vector<std::string> texts = inner_.gather(text);
    for (const std::string& one : texts)
      if (const auto endpoint = parse_endpoint(std::as_bytes(std::span(one))))
        for (net::Descriptor& socket : net::strangers(endpoint->port, count_, habit_))
          crowd_.push_back(std::move(socket));
    return texts;
  }

 private:
  Rendezvous& inner_;
  int count_;
  net::Habit habit_;
  std::vector<net::Descriptor> crowd_;
};

void expect_world_of_three_among(int count, net::Habit habit) {
  const uint16_t port = free_port();
  std::vector<std::string> log;
  std::mutex mutex;
  expect_nothing(play(3, [&](int rank) {
    net::TcpRendezvousOptions how = rendezvous_options(rank, 3, port);
    how.log = [&](const std::string& line) {
      const std::lock_guard lock(mutex);
      log.push_back(line);
    };
    std::vector<net::Descriptor> crowd;
    if (rank == 1) {
      net::wait_until_listening(port);
      crowd = net::strangers(port, count, habit);
    }
    const auto rendezvous = rendezvous_over_tcp(how);
    Besieged besieged(*rendezvous, rank == 0 ? count / 3 : 0, habit);
    const auto tcp = connect_tcp(besieged, {.key = "a key", .streams = 2, .log = how.log});
    std::byte bytes[2] = {std::byte{42}};
    const Outgoing out{(rank + 1) % 3, bytes, 1};
    const Incoming in{(rank + 2) % 3, bytes + 1, 1};
    tcp->exchange({}, {&out, 1}, {&in, 1}, Deadline::in(10));
    EXPECT_EQ(bytes[1], std::byte{42});
  }));
  EXPECT_FALSE(log.empty());
  EXPECT_LE(log.size(), 60U);
}

TEST(Strangers, AThousandHalfOpenConnectionsDisturbNobody) {
  expect_world_of_three_among(1000, net::Habit::sends_nothing);
}

TEST(Strangers, RandomBytesDisturbNobody) {
  expect_world_of_three_among(100, net::Habit::sends_garbage);
}

TEST(Strangers, ConnectionsThatAreClosedAtOnceDisturbNobody) {
  expect_world_of_three_among(100, net::Habit::hangs_up);
}

}  // namespace
}  // namespace lockstep::transport
