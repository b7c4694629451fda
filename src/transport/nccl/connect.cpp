#include "transport/nccl/connect.h"

#include <cstring>

#include "transport/nccl.h"
#include "transport/transports.h"

namespace lockstep::transport {
namespace nccl {
namespace {

// The first letter of what a rank tells the others.
constexpr char kReady = '+';
constexpr char kFailed = '-';

// This rank's error, or else another rank's, so that no rank waits for one that has given up.
void agree(Rendezvous& rendezvous, const std::string& error, const std::string& version) {
  const std::vector<std::string> all =
      rendezvous.gather(error.empty() ? kReady + version : kFailed + error);
  if (!error.empty()) throw BadInput("{}", error);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].starts_with(kFailed)) throw BadInput("rank {}: {}", rank, all[rank].substr(1));
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].substr(1) != version)
      throw Mismatch(
          "transport nccl: rank {} has NCCL {}, rank {} has {}; install the same version",
          rendezvous.rank(), version, rank, all[rank].substr(1));
}

UniqueId share_id(Rendezvous& rendezvous, const Api& api) {
  UniqueId id;
  std::string text;
  if (rendezvous.rank() == 0) {
    const Result result = api.get_unique_id(&id);
    text.assign(id.bytes.data(), id.bytes.size());
    if (result != Result::success) text.assign(1, static_cast<char>(result));
  }
  const std::string from_first = rendezvous.gather(text)[0];
  if (from_first.size() != id.bytes.size())
    throw Error(fmt::format("transport nccl: ncclGetUniqueId failed on rank 0: {}",
                            api.get_error_string(static_cast<Result>(from_first.at(0)))));
  std::memcpy(id.bytes.data(), from_first.data(), id.bytes.size());
  return id;
}

}  // namespace

Meeting meet(Rendezvous& rendezvous) {
  Meeting meeting;
  std::string error;
  try {
    meeting.library = Library::load();
  } catch (const BadInput& missing) {
    error = missing.what();
  }
  agree(rendezvous, error, error.empty() ? version_text(meeting.library->version()) : "");
  meeting.id = share_id(rendezvous, meeting.library->api());
  return meeting;
}

}  // namespace nccl

Table<DeviceQueueRow>& device_queues() {
  static Table<DeviceQueueRow> table("device queue");
  return table;
}

namespace {

std::unique_ptr<DeviceQueue> cuda_queue(int device) {
  const DeviceQueueRow* const row = device_queues().find("cuda");
  if (row == nullptr)
    throw BadInput(
        "transport nccl: there is no CUDA device for it (this build's LibTorch has no CUDA, or the "
        "command works in host memory only); choose another transport, such as hybrid");
  return row->make(device);
}

const bool nccl_added = transports().add(
    {.name = "nccl",
     .about = "NCCL between CUDA devices, and hybrid for what is in host memory",
     .meeting = TransportRow::Meeting::tcp,
     .connect =
         [](Rendezvous& rendezvous, const TransportOptions& options) {
           auto queue = cuda_queue(options.device);
           return connect_nccl(rendezvous, transports().at("hybrid").connect(rendezvous, options),
                               std::move(queue), {.connect_seconds = options.connect_seconds});
         },
     .has_engine = true,
     .carries = Place::device});

}  // namespace
}  // namespace lockstep::transport
