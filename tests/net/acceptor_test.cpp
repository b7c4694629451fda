#include "net/acceptor.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include "child_process.h"
#include "expect_error.h"
#include "net/strangers.h"
#include "net/worlds.h"

namespace lockstep::net {
namespace {

TEST(Acceptor, GoesOnWhenThereAreMoreConnectionsThanFilesMayBeOpen) {
  const uint16_t port = free_port();
  ChildProcess host([&](const ChildProcess::Say& say) {
    const rlimit few = {.rlim_cur = 40, .rlim_max = 40};
    setrlimit(RLIMIT_NOFILE, &few);
    TcpRendezvousOptions how = rendezvous_options(0, 2, port);
    how.log = [&](const std::string& line) { say(line); };
    say(fmt::format("gathered {}", rendezvous_over_tcp(how)->gather("hello").size()));
  });
  wait_until_listening(port);
  const std::vector<Descriptor> crowd = strangers(port, 200, Habit::sends_nothing);
  EXPECT_EQ(rendezvous_over_tcp(rendezvous_options(1, 2, port))->gather("hello").size(), 2U);
  std::string line;
  bool ran_out = false;
  while (!(line = host.line()).empty() && line != "gathered 2")
    ran_out = ran_out || line.find("no more files") != std::string::npos;
  EXPECT_EQ(line, "gathered 2");
  EXPECT_TRUE(ran_out);
}

TEST(Acceptor, TellsAWorkerOfAnotherJobThatItsKeyIsWrongAndGoesOn) {
  const uint16_t port = free_port();
  std::vector<std::string> log;
  expect_nothing(play(2, [&](int rank) {
    TcpRendezvousOptions how = rendezvous_options(rank, 2, port);
    if (rank == 0) how.log = [&](const std::string& line) { log.push_back(line); };
    if (rank == 1) {
      TcpRendezvousOptions other = how;
      other.key = "another key";
      expect_bad_input([&] { rendezvous_over_tcp(other); }, {"another job key", "one key"});
    }
    EXPECT_EQ(rendezvous_over_tcp(how)->gather("hello").size(), 2U);
  }));
  ASSERT_EQ(log.size(), 1U);
  EXPECT_NE(log[0].find("another job key"), std::string::npos) << log[0];
}

TEST(Dial, NamesAPortAtWhichAnotherProgramListens) {
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
  expect_bad_input([&] { rendezvous_over_tcp(rendezvous_options(1, 2, port)); },
                   {"127.0.0.1:" + std::to_string(port), "is another program"});
  server.join();
}

}  // namespace
}  // namespace lockstep::net
