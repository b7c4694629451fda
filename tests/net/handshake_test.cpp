#include "net/handshake.h"

#include <gtest/gtest.h>

#include "net/socket.h"

namespace lockstep::net {
namespace {

const Identity kIdentity{
    .session = 7, .from = 2, .to = 1, .kind = ConnectionKind::data, .stream = 3};

Answer answer_to(const Challenge& challenge) {
  Answer answer{.identity = kIdentity, .nonce = random_nonce()};
  answer.proof = client_proof("key", challenge, answer);
  return answer;
}

TEST(Handshake, AProofHoldsForItsKeyAndChallengeOnly) {
  const Challenge challenge{random_nonce()};
  const Answer answer = answer_to(challenge);
  EXPECT_TRUE(same(answer.proof, client_proof("key", challenge, answer)));
  EXPECT_FALSE(same(answer.proof, client_proof("kez", challenge, answer)));
  EXPECT_FALSE(same(answer.proof, client_proof("key", {random_nonce()}, answer)));
}

TEST(Handshake, AProofIsBoundToWhoCallsWhomAndForWhat) {
  const Challenge challenge{random_nonce()};
  const Answer answer = answer_to(challenge);
  for (int field = 0; field < 5; ++field) {
    Answer changed = answer;
    if (field == 0) changed.identity.session = 8;
    if (field == 1) changed.identity.from = 3;
    if (field == 2) changed.identity.to = 0;
    if (field == 3) changed.identity.kind = ConnectionKind::control;
    if (field == 4) changed.identity.stream = 0;
    EXPECT_FALSE(same(answer.proof, client_proof("key", challenge, changed))) << field;
  }
}

TEST(Handshake, AServerCannotBeImpersonatedWithTheClientsOwnProof) {
  const Challenge challenge{random_nonce()};
  const Answer answer = answer_to(challenge);
  EXPECT_FALSE(same(answer.proof, server_proof("key", challenge, answer)));
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
}

struct Connection {
  Descriptor client;
  Descriptor server;
};

Connection connect_locally() {
  const Descriptor listener = listen_at("127.0.0.1", 0);
  Connection made;
  made.client = start_connecting(local_address(listener.get()));
  pollfd wait = {.fd = listener.get(), .events = POLLIN, .revents = 0};
  wait_for({&wait, 1}, 5);
  made.server = accept_from(listener.get());
  return made;
}

struct Statuses {
  HandshakeStatus client = HandshakeStatus::pending;
  HandshakeStatus server = HandshakeStatus::pending;
};

Statuses shake(ClientHandshake& client, ServerHandshake& server) {
  const Connection connection = connect_locally();
  Statuses statuses{.server = server.challenge(connection.server.get())};
  for (int i = 0; i < 1000; ++i) {
    if (statuses.server == HandshakeStatus::pending)
      statuses.server = server.advance(connection.server.get());
    if (statuses.client == HandshakeStatus::pending)
      statuses.client = client.advance(connection.client.get());
    if (statuses.server != HandshakeStatus::pending && statuses.client != HandshakeStatus::pending)
      break;
    std::array<pollfd, 2> waits = {pollfd{connection.client.get(), POLLIN, 0},
                                   pollfd{connection.server.get(), POLLIN, 0}};
    wait_for(waits, 1);
  }
  return statuses;
}

TEST(Handshake, BothEndsAgreeWhenBothKnowTheKey) {
  const std::string key = "key";
  const ServerHandshake::Expects expects = [](const Identity& who) { return who == kIdentity; };
  ServerHandshake server(key, expects);
  ClientHandshake client(key, kIdentity);
  const Statuses statuses = shake(client, server);
  EXPECT_EQ(statuses.client, HandshakeStatus::done);
  EXPECT_EQ(statuses.server, HandshakeStatus::done);
  EXPECT_EQ(server.identity(), kIdentity);
}

TEST(Handshake, AClientWithAnotherKeyIsToldAndDropped) {
  const std::string key = "key";
  const ServerHandshake::Expects expects = [](const Identity&) { return true; };
  ServerHandshake server(key, expects);
  ClientHandshake client("another", kIdentity);
  const Statuses statuses = shake(client, server);
  EXPECT_EQ(statuses.client, HandshakeStatus::failed);
  EXPECT_EQ(statuses.server, HandshakeStatus::failed);
  EXPECT_TRUE(client.refused());
  EXPECT_STREQ(server.error(), "has another job key (LOCKSTEP_JOB_KEY)");
}

TEST(Handshake, AClientThatIsNotExpectedIsDroppedThoughItKnowsTheKey) {
  const std::string key = "key";
  const ServerHandshake::Expects expects = [](const Identity&) { return false; };
  ServerHandshake server(key, expects);
  ClientHandshake client(key, kIdentity);
  EXPECT_EQ(shake(client, server).server, HandshakeStatus::failed);
  EXPECT_STREQ(client.error(), "does not expect this worker");
}

}  // namespace
}  // namespace lockstep::net
