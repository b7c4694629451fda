#include <sys/resource.h>

#include <mutex>
#include <random>

#include "expect_error.h"
#include "transport/child_process.h"
#include "transport/tcp/wire.h"
#include "transport/tcp_worlds.h"

// What comes to a job's ports from people and programs that are no part of it.
namespace lockstep::transport {
namespace {

enum class Habit { silent, garbage, hangs_up };

// Connections to `port` that behave so; open for as long as they are kept.
std::vector<Descriptor> strangers(uint16_t port, int count, Habit habit) {
  std::mt19937 random(1);
  std::vector<Descriptor> made;
  const Address address = resolve("127.0.0.1", port).at(0);
  for (int i = 0; i < count; ++i) {
    Descriptor socket = start_connecting(address);
    pollfd wait = {.fd = socket.get(), .events = POLLOUT, .revents = 0};
    wait_for({&wait, 1}, 5);
    std::array<std::byte, 300> noise;
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
    if (habit == Habit::garbage) send_some(socket.get(), noise);
    if (habit != Habit::hangs_up) made.push_back(std::move(socket));
  }
  return made;
}

void wait_until_listening(uint16_t port) {
  const Address master = resolve("127.0.0.1", port).at(0);
  for (int error = -1; error != 0;) {
    const Descriptor probe = start_connecting(master);
    pollfd wait = {.fd = probe.get(), .events = POLLOUT, .revents = 0};
    if (probe) wait_for({&wait, 1}, 1);
    error = probe ? connecting_error(probe.get()) : -1;
    // A socket can connect to itself when it is given the port it dials.
    if (local_address(probe.get()).text() == remote_address(probe.get()).text()) error = -1;
  }
}

// A rendezvous that, once ranks have told their ports, lets strangers in there too.
class Besieged : public Rendezvous {
 public:
  Besieged(Rendezvous& inner, int count, Habit habit)
      : inner_(inner), count_(count), habit_(habit) {}

  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  std::string address() const override { return inner_.address(); }
  std::vector<std::string> gather(const std::string& text) override {
    std::vector<std::string> texts = inner_.gather(text);
    for (const std::string& one : texts)
      if (const auto card = parse_card(std::as_bytes(std::span(one))))
        for (Descriptor& socket : strangers(card->port, count_, habit_))
          crowd_.push_back(std::move(socket));
    return texts;
  }

 private:
  Rendezvous& inner_;
  int count_;
  Habit habit_;
  std::vector<Descriptor> crowd_;
};

void expect_world_of_three_among(int count, Habit habit) {
  const uint16_t port = free_port();
  std::vector<std::string> log;
  std::mutex mutex;
  expect_nothing(play(3, [&](int rank) {
    Meeting how = meeting_of(rank, 3, port);
    how.log = [&](const std::string& line) {
      const std::lock_guard lock(mutex);
      log.push_back(line);
    };
    std::vector<Descriptor> crowd;
    if (rank == 1) {
      wait_until_listening(port);
      crowd = strangers(port, count, habit);
    }
    const auto meeting = meet_over_tcp(how);
    Besieged besieged(*meeting, rank == 0 ? count / 3 : 0, habit);
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

TEST(Strangers, AThousandHalfOpenConnectionsStopNobody) {
  expect_world_of_three_among(1000, Habit::silent);
}

TEST(Strangers, RandomBytesStopNobody) {
  expect_world_of_three_among(100, Habit::garbage);
}

TEST(Strangers, ThoseWhoHangUpAtOnceStopNobody) {
  expect_world_of_three_among(100, Habit::hangs_up);
}

TEST(Strangers, MoreOfThemThanFilesMayBeOpenStopNobody) {
  const uint16_t port = free_port();
  ChildProcess host([&](const ChildProcess::Say& say) {
    const rlimit few = {.rlim_cur = 40, .rlim_max = 40};
    setrlimit(RLIMIT_NOFILE, &few);
    Meeting how = meeting_of(0, 2, port);
    how.log = [&](const std::string& line) { say(line); };
    say(fmt::format("gathered {}", meet_over_tcp(how)->gather("hello").size()));
  });
  wait_until_listening(port);
  const std::vector<Descriptor> crowd = strangers(port, 200, Habit::silent);
  EXPECT_EQ(meet_over_tcp(meeting_of(1, 2, port))->gather("hello").size(), 2U);
  std::string line;
  bool ran_out = false;
  while (!(line = host.line()).empty() && line != "gathered 2")
    ran_out = ran_out || line.find("no more files") != std::string::npos;
  EXPECT_EQ(line, "gathered 2");
  EXPECT_TRUE(ran_out);
}

TEST(Strangers, AWorkerOfAnotherJobIsToldThatItsKeyIsWrongAndTheJobGoesOn) {
  const uint16_t port = free_port();
  std::vector<std::string> log;
  expect_nothing(play(2, [&](int rank) {
    Meeting how = meeting_of(rank, 2, port);
    if (rank == 0) how.log = [&](const std::string& line) { log.push_back(line); };
    if (rank == 1) {
      Meeting other = how;
      other.key = "another key";
      expect_bad_input([&] { meet_over_tcp(other); }, {"another job key", "one key"});
    }
    EXPECT_EQ(meet_over_tcp(how)->gather("hello").size(), 2U);
  }));
  ASSERT_EQ(log.size(), 1U);
  EXPECT_NE(log[0].find("another job key"), std::string::npos) << log[0];
}

TEST(Strangers, WhatListensAtTheMastersPortAndIsNotLockstepIsNamed) {
  const Descriptor listener = listen_at("127.0.0.1", 0);
  const uint16_t port = local_address(listener.get()).port();
  std::thread server([&] {
    pollfd wait = {.fd = listener.get(), .events = POLLIN, .revents = 0};
    wait_for({&wait, 1}, 10);
    const Descriptor client = accept_from(listener.get());
    const std::string greeting(200, 'H');
    send_some(client.get(), std::as_bytes(std::span(greeting)));
    pollfd gone = {.fd = client.get(), .events = POLLIN, .revents = 0};
    wait_for({&gone, 1}, 10);
  });
  expect_bad_input([&] { meet_over_tcp(meeting_of(1, 2, port)); },
                   {"127.0.0.1:" + std::to_string(port), "is another program"});
  server.join();
}

}  // namespace
}  // namespace lockstep::transport
