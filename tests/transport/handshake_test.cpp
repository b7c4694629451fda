#include "transport/tcp/handshake.h"

#include <gtest/gtest.h>

#include "transport/tcp/socket.h"

namespace lockstep::transport {
namespace {

const Identity kIdentity{.session = 7, .from = 2, .to = 1, .purpose = Purpose::data, .stream = 3};

Answer answer_to(const Challenge& challenge) {
  Answer answer{.identity = kIdentity, .nonce = random_nonce()};
  answer.proof = guest_proof("key", challenge, answer);
  return answer;
}

TEST(Handshake, AProofHoldsForItsKeyAndChallengeOnly) {
  const Challenge challenge{random_nonce()};
  const Answer answer = answer_to(challenge);
  EXPECT_TRUE(same(answer.proof, guest_proof("key", challenge, answer)));
  EXPECT_FALSE(same(answer.proof, guest_proof("kez", challenge, answer)));
  EXPECT_FALSE(same(answer.proof, guest_proof("key", {random_nonce()}, answer)));
}

TEST(Handshake, AProofIsBoundToWhoCallsWhomAndForWhat) {
  const Challenge challenge{random_nonce()};
  const Answer answer = answer_to(challenge);
  for (int field = 0; field < 5; ++field) {
    Answer changed = answer;
    if (field == 0) changed.identity.session = 8;
    if (field == 1) changed.identity.from = 3;
    if (field == 2) changed.identity.to = 0;
    if (field == 3) changed.identity.purpose = Purpose::control;
    if (field == 4) changed.identity.stream = 0;
    EXPECT_FALSE(same(answer.proof, guest_proof("key", challenge, changed))) << field;
  }
}

TEST(Handshake, AHostCannotBeImpersonatedWithTheGuestsOwnProof) {
  const Challenge challenge{random_nonce()};
  const Answer answer = answer_to(challenge);
  EXPECT_FALSE(same(answer.proof, host_proof("key", challenge, answer)));
}

TEST(Handshake, FramesAreReadBackAsTheyWereWritten) {
  const Answer answer = answer_to({random_nonce()});
  const std::string bytes = encode(answer);
  ASSERT_EQ(bytes.size(), kAnswerBytes);
  const std::optional<Answer> read = parse_answer(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->identity, kIdentity);
  EXPECT_EQ(read->nonce, answer.nonce);
  EXPECT_EQ(read->proof, answer.proof);
  EXPECT_FALSE(parse_answer(std::as_bytes(std::span(bytes)).first(kAnswerBytes - 1)));
  EXPECT_EQ(encode(Challenge{}).size(), kChallengeBytes);
  EXPECT_EQ(encode(Reply{}).size(), kReplyBytes);
  EXPECT_EQ(encode(FrameHeader{}).size(), kFrameHeaderBytes);
  EXPECT_EQ(encode(ControlHeader{}).size(), kControlHeaderBytes);
}

struct Connection {
  Descriptor guest;
  Descriptor host;
};

Connection connect_locally() {
  const Descriptor listener = listen_at("127.0.0.1", 0);
  Connection made;
  made.guest = start_connecting(local_address(listener.get()));
  pollfd wait = {.fd = listener.get(), .events = POLLIN, .revents = 0};
  wait_for({&wait, 1}, 5);
  made.host = accept_from(listener.get());
  return made;
}

struct Outcome {
  Progress guest = Progress::going;
  Progress host = Progress::going;
};

Outcome shake(GuestHandshake& guest, HostHandshake& host) {
  const Connection connection = connect_locally();
  Outcome outcome{.host = host.challenge(connection.host.get())};
  for (int i = 0; i < 1000; ++i) {
    if (outcome.host == Progress::going) outcome.host = host.advance(connection.host.get());
    if (outcome.guest == Progress::going) outcome.guest = guest.advance(connection.guest.get());
    if (outcome.host != Progress::going && outcome.guest != Progress::going) break;
    std::array<pollfd, 2> waits = {pollfd{connection.guest.get(), POLLIN, 0},
                                   pollfd{connection.host.get(), POLLIN, 0}};
    wait_for(waits, 1);
  }
  return outcome;
}

TEST(Handshake, BothEndsAgreeWhenBothKnowTheKey) {
  const std::string key = "key";
  const HostHandshake::Expects expects = [](const Identity& who) { return who == kIdentity; };
  HostHandshake host(key, expects);
  GuestHandshake guest(key, kIdentity);
  const Outcome outcome = shake(guest, host);
  EXPECT_EQ(outcome.guest, Progress::done);
  EXPECT_EQ(outcome.host, Progress::done);
  EXPECT_EQ(host.identity(), kIdentity);
}

TEST(Handshake, AGuestWithAnotherKeyIsToldAndDropped) {
  const std::string key = "key";
  const HostHandshake::Expects expects = [](const Identity&) { return true; };
  HostHandshake host(key, expects);
  GuestHandshake guest("another", kIdentity);
  const Outcome outcome = shake(guest, host);
  EXPECT_EQ(outcome.guest, Progress::failed);
  EXPECT_EQ(outcome.host, Progress::failed);
  EXPECT_TRUE(guest.refused());
  EXPECT_STREQ(host.trouble(), "has another job key (LOCKSTEP_JOB_KEY)");
}

TEST(Handshake, AGuestThatIsNotExpectedIsDroppedThoughItKnowsTheKey) {
  const std::string key = "key";
  const HostHandshake::Expects expects = [](const Identity&) { return false; };
  HostHandshake host(key, expects);
  GuestHandshake guest(key, kIdentity);
  EXPECT_EQ(shake(guest, host).host, Progress::failed);
  EXPECT_STREQ(guest.trouble(), "does not expect this worker");
}

}  // namespace
}  // namespace lockstep::transport
