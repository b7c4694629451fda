#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/mpi/library.h"
#include "transport/transport.h"
#include "transport/watched_wait.h"

namespace lockstep::transport::mpi {

/// An MPI communicator, the first of the tags that are used there, and its ranks.
struct Port {
  MPI_Comm communicator;
  int first_tag;
  int rank;
  std::vector<Peer> peers;
  /// More ranks than processors on this host: a rank that waits must yield.
  bool crowded;
};

/// Runs one `Transport::exchange` after another over a port.
class Exchange {
 public:
  explicit Exchange(Port port) : port_(std::move(port)) {}

  /// The tags of messages are from `Port::first_tag` on, fewer than these.
  static constexpr int kTags = 2000;

  const Port& port() const { return port_; }

  void run(const Label& label, std::span<const Outgoing> outgoing,
           std::span<const Incoming> incoming, Deadline deadline);

  void watch_waits(const WaitWatch& watch) { watch_ = watch; }

  /// Waits for a request of an MPI collective.
  void finish(MPI_Request request, Deadline deadline);

 private:
  static constexpr size_t kInlined = 4032;
  static constexpr size_t kPiece = size_t{512} << 10;
  static constexpr size_t kInFlight = 4;

  struct Header {
    Label label;
    uint64_t bytes;
  };
  struct Envelope {
    Header header;
    std::array<std::byte, kInlined> inlined;
  };
  using Scratch = std::array<std::byte, kPiece>;

  enum class MpiPart { sent_envelope, sent_piece, envelope, piece };
  /// What a request is for: a part of outgoing or incoming message number `message`.
  struct MpiTask {
    MpiPart part = MpiPart::sent_envelope;
    size_t message = 0;
    size_t begin = 0;
    size_t bytes = 0;
    int peer = 0;
  };
  struct MpiMessage {
    int tag = 0;
    size_t posted = 0;  ///< bytes for which requests were made
    std::array<std::unique_ptr<Scratch>, kInFlight> scratch;
  };

  void begin(const Label& label, std::span<const Outgoing> outgoing,
             std::span<const Incoming> incoming);
  void drop_requests() noexcept;

  void post_send(const MpiTask& task, const void* data, size_t bytes, int tag);
  void post_receive(const MpiTask& task, void* into, size_t bytes, int tag);
  MPI_Request& add(const MpiTask& task);

  void send_envelope(size_t message);
  void send_next_piece(size_t message);
  void receive_next_piece(size_t message);
  std::byte* landing_place(size_t message, size_t begin);
  void open(size_t message);

  void complete(const MpiTask& task);
  void poll();
  void throw_failed(int found);
  std::map<int, std::string> late_ranks() const;
  void look_at_the_clock(Deadline deadline, WatchedWait& wait) const;

  const Port port_;
  Library& library_ = Library::get();

  WaitWatch watch_;
  bool failed_ = false;

  // Of the current exchange.
  Label label_;
  std::span<const Outgoing> outgoing_;
  std::span<const Incoming> incoming_;
  std::vector<MpiMessage> sends_;
  std::vector<MpiMessage> receives_;

  std::vector<Envelope> envelopes_;  ///< of what is received, then of what is sent
  std::vector<MPI_Request> requests_;
  std::vector<MpiTask> tasks_;  ///< by request
  size_t pending_ = 0;
  std::vector<MpiTask> done_;
  std::vector<int> found_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace lockstep::transport::mpi
