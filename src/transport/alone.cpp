#include "transport/alone.h"

#include <unistd.h>

#include "base/host.h"
#include "transport/own_memory.h"

namespace lockstep::transport {
namespace {

class Alone : public Transport {
 public:
  const char* name() const override { return "alone"; }
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  const std::vector<Peer>& peers() const override { return peers_; }
  Memory allocate(size_t bytes) override { return own_memory(bytes); }
  void check_peers() override {}
  void watch_waits(const WaitWatch& /*watch*/) override {}
  void tell_whereabouts(const Whereabouts& /*mine*/) override {}
  std::optional<Whereabouts> whereabouts_of(int /*peer*/) override { return std::nullopt; }
  void abort(const std::string& /*why*/, int /*culprit*/) noexcept override {}
  std::unique_ptr<Transport> connect_again(Rendezvous& /*rendezvous*/) const override {
    return connect_alone();
  }

  void exchange(const Label& /*label*/, std::span<const Outgoing> outgoing,
                std::span<const Incoming> incoming, Deadline /*deadline*/) override {
    if (!outgoing.empty() || !incoming.empty())
      throw Error("rank 0 is the only rank and cannot exchange messages");
  }

 private:
  const std::vector<Peer> peers_ = {{.rank = 0, .host = host_name(), .pid = getpid()}};
};

}  // namespace

std::unique_ptr<Transport> connect_alone() {
  return std::make_unique<Alone>();
}

}  // namespace lockstep::transport
