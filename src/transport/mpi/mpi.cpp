#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/host.h"
#include "transport/engine.h"
#include "transport/mpi/entry.h"
#include "transport/mpi/exchange.h"
#include "transport/mpi/library.h"
#include "transport/mpi/whereabouts_notes.h"
#include "transport/own_memory.h"

namespace lockstep::transport {
namespace {

// Our tags on MPI_COMM_WORLD, which the program may use too: a range that it is unlikely to use.
constexpr int kWorldTag = 23'000;

MPI_Datatype datatype(Type type) {
  switch (type) {
    case Type::f32:
      return MPI_FLOAT;
    case Type::f64:
      return MPI_DOUBLE;
    case Type::i32:
      return MPI_INT32_T;
    case Type::i64:
      return MPI_INT64_T;
    case Type::u8:
    case Type::boolean:
      return MPI_UINT8_T;
    case Type::i8:
      return MPI_INT8_T;
    case Type::i16:
      return MPI_INT16_T;
    case Type::f16:
    case Type::bf16:
      break;
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op operator_of(Operation operation) {
  if (operation == Operation::min) return MPI_MIN;
  if (operation == Operation::max) return MPI_MAX;
  return MPI_SUM;
}

// A launcher that is told to abort may drop stderr output that it has not read yet.
void let_launcher_read_stderr() {
  int unread = 0;
  const Deadline deadline = Deadline::in(1);
  while (ioctl(STDERR_FILENO, FIONREAD, &unread) == 0 && unread > 0 && !deadline.passed())
    sched_yield();
}

class MpiEngine final : public Engine {
 public:
  explicit MpiEngine(mpi::Exchange& exchange) : exchange_(exchange) {}

  bool supports(Type type) const override { return datatype(type) != MPI_DATATYPE_NULL; }

  void all_reduce(std::byte* data, int64_t count, Type type, Operation operation,
                  Deadline deadline) override {
    if (!supports(type))
      throw BadInput("algorithm engine: MPI has no {}; choose another algorithm", name_of(type));
    constexpr int64_t kAtOnce = int64_t{1} << 30;  // MPI counts in int
    for (int64_t begin = 0; begin < count; begin += kAtOnce) {
      MPI_Request request = MPI_REQUEST_NULL;
      {
        const MutexLock lock(mpi::Library::get().mutex());
        mpi::check(
            MPI_Iallreduce(MPI_IN_PLACE, data + begin * static_cast<int64_t>(bytes_of(type)),
                           static_cast<int>(std::min(kAtOnce, count - begin)), datatype(type),
                           operator_of(operation), exchange_.port().communicator, &request),
            "MPI_Iallreduce");
      }
      exchange_.finish(request, deadline);
    }
  }

 private:
  mpi::Exchange& exchange_;
};

// Its communicator is never freed: MPI_Comm_free is a collective, which a destructor must not call.
class Mpi final : public Transport {
 public:
  Mpi(mpi::Port port, const MpiOptions& options)
      : exchange_(std::move(port)),
        engine_(exchange_),
        notes_(exchange_.port()),
        options_(options) {}

  const char* name() const override { return "mpi"; }
  int rank() const override { return exchange_.port().rank; }
  int world_size() const override { return static_cast<int>(peers().size()); }
  const std::vector<Peer>& peers() const override { return exchange_.port().peers; }
  Engine* engine() override { return &engine_; }

  void exchange(const Label& label, std::span<const Outgoing> outgoing,
                std::span<const Incoming> incoming, Deadline deadline) override {
    exchange_.run(label, outgoing, incoming, deadline);
  }

  Memory allocate(size_t bytes) override { return own_memory(bytes); }
  void check_peers() override {}  // MPI ends the processes of a job that has lost one
  void watch_waits(const WaitWatch& watch) override { exchange_.watch_waits(watch); }
  void tell_whereabouts(const Whereabouts& mine) override { notes_.tell(mine); }
  std::optional<Whereabouts> whereabouts_of(int peer) override { return notes_.told_by(peer); }

  void abort(const std::string& why, int /*culprit*/) noexcept override {
    mpi::Library::get().give_up();
    std::fprintf(stderr, "lockstep: %s aborts: %s\n",
                 peers()[static_cast<size_t>(rank())].text().c_str(), why.c_str());
    let_launcher_read_stderr();
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  std::unique_ptr<Transport> connect_again(Rendezvous& rendezvous) const override {
    return connect_mpi(rendezvous, options_);
  }

 private:
  mpi::Exchange exchange_;
  MpiEngine engine_;
  mpi::WhereaboutsNotes notes_;
  const MpiOptions options_;
};

// Every rank sends its text to every other rank, so that a rank that waits knows for whom.
class MpiRendezvous final : public Rendezvous {
 public:
  MpiRendezvous(mpi::Port port, const MpiOptions& options)
      : exchange_(std::move(port)), options_(options) {}

  int rank() const override { return exchange_.port().rank; }
  int world_size() const override { return static_cast<int>(exchange_.port().peers.size()); }

  std::vector<std::string> gather(const std::string& text) override {
    const uint64_t size = text.size();
    std::vector<uint64_t> sizes(static_cast<size_t>(world_size()), size);
    send_to_all(&size, sizeof size, [&](size_t peer) { return std::span(&sizes[peer], 1); });
    std::vector<std::string> texts(sizes.size(), text);
    for (size_t peer = 0; peer < texts.size(); ++peer) texts[peer].resize(sizes[peer]);
    send_to_all(text.data(), text.size(), [&](size_t peer) { return std::span(texts[peer]); });
    return texts;
  }

 private:
  template <typename Place>
  void send_to_all(const void* data, size_t bytes, Place place) {
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (int peer = 0; peer < world_size(); ++peer) {
      if (peer == rank()) continue;
      const auto room = std::as_writable_bytes(place(static_cast<size_t>(peer)));
      outgoing.push_back({peer, static_cast<const std::byte*>(data), bytes});
      incoming.push_back({peer, room.data(), room.size()});
    }
    const Label label{{0x7265'6e64'657a'7675, rounds_++}};
    exchange_.run(label, outgoing, incoming, Deadline::in(options_.connect_seconds));
  }

  mpi::Exchange exchange_;
  const MpiOptions options_;
  uint64_t rounds_ = 0;
};

struct Introduction {
  Peer peer;
  int world_rank = 0;
  std::string identity;
};

std::vector<Introduction> introduce(Rendezvous& rendezvous, int world_rank) {
  const std::string mine = fmt::format("{} {} {} {} {}", rendezvous.job_rank(), getpid(),
                                       world_rank, host_name(), host_identity());
  std::vector<Introduction> all;
  for (const std::string& text : rendezvous.gather(mine)) {
    Introduction& one = all.emplace_back();
    std::istringstream words(text);
    words >> one.peer.rank >> one.peer.pid >> one.world_rank >> one.peer.host;
    std::getline(words, one.identity);
  }
  return all;
}

bool is_crowded(const std::vector<Introduction>& all, size_t self) {
  const auto here = std::count_if(all.begin(), all.end(), [&](const Introduction& one) {
    return one.identity == all[self].identity;
  });
  return here > sysconf(_SC_NPROCESSORS_ONLN);
}

int world_rank() {
  int rank = 0;
  mpi::check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  return rank;
}

// All its ranks have taken part in the rendezvous, so no rank waits for long.
MPI_Comm communicator_of(const std::vector<Introduction>& all) {
  std::vector<int> ranks;
  for (const Introduction& one : all) ranks.push_back(one.world_rank);
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm communicator = MPI_COMM_NULL;
  const MutexLock lock(mpi::Library::get().mutex());
  mpi::check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  mpi::check(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group),
             "MPI_Group_incl");
  mpi::check(MPI_Comm_create_group(MPI_COMM_WORLD, group, kWorldTag - 1, &communicator),
             "MPI_Comm_create_group");
  mpi::check(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  return communicator;
}

}  // namespace

std::string mpi::version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text = {};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data(), static_cast<size_t>(length));
  std::string first = all.substr(0, all.find_first_of(",\n"));
  std::replace(first.begin(), first.end(), '\t', ' ');  // MPICH writes a tab before its number
  return first;
}

std::unique_ptr<Rendezvous> mpi::rendezvous(const MpiOptions& options) {
  mpi::Library::get();
  int world = 0;
  mpi::check(MPI_Comm_size(MPI_COMM_WORLD, &world), "MPI_Comm_size");
  std::vector<Peer> peers;
  for (int rank = 0; rank < world; ++rank) peers.push_back({rank, "not connected yet", 0});
  const bool may_be_crowded = world > sysconf(_SC_NPROCESSORS_ONLN);
  return std::make_unique<MpiRendezvous>(
      mpi::Port{MPI_COMM_WORLD, kWorldTag, world_rank(), std::move(peers), may_be_crowded},
      options);
}

std::unique_ptr<Transport> mpi::connect(Rendezvous& rendezvous, const MpiOptions& options) {
  mpi::Library::get();
  const auto all = introduce(rendezvous, world_rank());
  std::vector<Peer> peers;
  for (const Introduction& one : all) peers.push_back(one.peer);
  const bool crowded = is_crowded(all, static_cast<size_t>(rendezvous.rank()));
  return std::make_unique<Mpi>(
      mpi::Port{communicator_of(all), 0, rendezvous.rank(), std::move(peers), crowded}, options);
}

}  // namespace lockstep::transport

extern "C" [[gnu::visibility("default")]] const lockstep::transport::mpi::Entry*
lockstep_mpi_entry() {
  using namespace lockstep::transport;
  static constexpr mpi::Entry kAll = {mpi::version, mpi::rendezvous, mpi::connect};
  return &kAll;
}
