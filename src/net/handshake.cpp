#include "net/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <string_view>
#include <utility>

#include "lockstep/error.h"
#include "net/bytes.h"
#include "net/socket.h"

namespace lockstep::net {
namespace {

Proof prove(std::string_view role, const std::string& key, const Challenge& challenge,
            const Answer& answer) {
  const std::string text = ByteWriter()
                               .put_text(role)
                               .put_bytes(challenge.nonce)
                               .put_bytes(answer.nonce)
                               .put_bytes(encode(answer.identity))
                               .bytes();
  Proof proof;
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(proof.data()), &size) == nullptr ||
      size != proof.size())
    throw Error("libcrypto cannot compute HMAC-SHA256; check the OpenSSL installation");
  return proof;
}

// These frames are smaller than the send buffer of a connection that has sent nothing else yet.
bool send_whole(int socket, const std::string& frame) {
  return send_some(socket, std::as_bytes(std::span(frame))).bytes == frame.size();
}

// Reads on until `size` bytes are there.
template <size_t N>
HandshakeStatus fill(int socket, std::array<std::byte, N>& into, size_t& have, size_t size) {
  while (have < size) {
    const Moved moved = receive_some(socket, std::span(into).subspan(have, size - have));
    if (moved.closed) return HandshakeStatus::failed;
    if (moved.bytes == 0) return HandshakeStatus::pending;
    have += moved.bytes;
  }
  return HandshakeStatus::done;
}

}  // namespace

Nonce random_nonce() {
  Nonce nonce;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) !=
      1)
    throw Error("libcrypto has no random numbers; check the OpenSSL installation");
  return nonce;
}

Proof client_proof(const std::string& key, const Challenge& challenge, const Answer& answer) {
  return prove("lockstep client 1", key, challenge, answer);
}

Proof server_proof(const std::string& key, const Challenge& challenge, const Answer& answer) {
  return prove("lockstep server 1", key, challenge, answer);
}

bool same(const Proof& a, const Proof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

ServerHandshake::ServerHandshake(const std::string& key, const Expects& expects)
    : key_(&key), expects_(&expects), challenge_{random_nonce()} {}

HandshakeStatus ServerHandshake::fail(const char* error) {
  error_ = error;
  return HandshakeStatus::failed;
}

HandshakeStatus ServerHandshake::challenge(int socket) {
  return send_whole(socket, encode(challenge_)) ? HandshakeStatus::pending
                                                : fail("closed the connection");
}

HandshakeStatus ServerHandshake::advance(int socket) {
  const HandshakeStatus read = fill(socket, arrived_, arrived_bytes_, kAnswerBytes);
  if (read == HandshakeStatus::failed) return fail("closed the connection");
  if (read == HandshakeStatus::pending) return read;
  const std::optional<Answer> answer = parse_answer(arrived_);
  return answer ? judge(socket, *answer) : fail("does not speak Lockstep's protocol");
}

HandshakeStatus ServerHandshake::judge(int socket, const Answer& answer) {
  refused_ = true;
  if (!same(answer.proof, client_proof(*key_, challenge_, answer))) {
    send_whole(socket, encode(Reply{.verdict = Verdict::wrong_key}));
    return fail("has another job key (LOCKSTEP_JOB_KEY)");
  }
  if (!(*expects_)(answer.identity)) {
    send_whole(socket, encode(Reply{.verdict = Verdict::not_expected}));
    return fail("has the job key, but is not expected here; it may be left over from another job");
  }
  refused_ = false;
  const Reply reply{.verdict = Verdict::welcome, .proof = server_proof(*key_, challenge_, answer)};
  if (!send_whole(socket, encode(reply))) return fail("closed the connection");
  answer_ = answer;
  return HandshakeStatus::done;
}

ClientHandshake::ClientHandshake(std::string key, const Identity& identity)
    : key_(std::move(key)), answer_{.identity = identity, .nonce = random_nonce()} {}

HandshakeStatus ClientHandshake::fail(const char* error) {
  error_ = error;
  return HandshakeStatus::failed;
}

HandshakeStatus ClientHandshake::advance(int socket) {
  if (!answered_) {
    const HandshakeStatus read = fill(socket, arrived_, arrived_bytes_, kChallengeBytes);
    if (read == HandshakeStatus::failed) return fail("closed the connection before the handshake");
    if (read == HandshakeStatus::pending) return read;
    if (answer_challenge(socket) == HandshakeStatus::failed) return HandshakeStatus::failed;
  }
  const HandshakeStatus read = fill(socket, arrived_, arrived_bytes_, kReplyBytes);
  if (read == HandshakeStatus::failed) return fail("closed the connection during the handshake");
  return read == HandshakeStatus::pending ? read : check_reply();
}

HandshakeStatus ClientHandshake::answer_challenge(int socket) {
  const std::optional<Challenge> challenge =
      parse_challenge(std::span(arrived_).first(kChallengeBytes));
  if (!challenge) {
    refused_ = true;
    return fail("is another program or another version of Lockstep");
  }
  challenge_ = *challenge;
  answer_.proof = client_proof(key_, challenge_, answer_);
  if (!send_whole(socket, encode(answer_)))
    return fail("closed the connection during the handshake");
  answered_ = true;
  arrived_bytes_ = 0;
  return HandshakeStatus::pending;
}

HandshakeStatus ClientHandshake::check_reply() {
  const std::optional<Reply> reply = parse_reply(arrived_);
  refused_ = true;
  if (!reply) return fail("is another program or another version of Lockstep");
  if (reply->verdict == Verdict::wrong_key)
    return fail(key_.empty()
                    ? "requires a job key, and LOCKSTEP_JOB_KEY is not set here"
                    : "has another job key: LOCKSTEP_JOB_KEY must be the same on all workers");
  if (reply->verdict == Verdict::not_expected) return fail("does not expect this worker");
  if (!same(reply->proof, server_proof(key_, challenge_, answer_)))
    return fail("does not know the job key");
  refused_ = false;
  return HandshakeStatus::done;
}

}  // namespace lockstep::net
