#include "transport/shm/shared_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/host.h"
#include "base/units.h"

namespace lockstep::transport {
namespace {

using nlohmann::json;

size_t round_up(size_t value, size_t step) {
  return (value + step - 1) / step * step;
}

uint64_t physical_memory() {
  const uint64_t pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// What a rank sends to the others before memory is shared.
json introduce(int job_rank, const std::string& host) {
  return {{"rank", job_rank},
          {"identity", host.empty() ? host_identity() : host},
          {"host", host_name()},
          {"pid", getpid()},
          {"processors", allowed_processors()},
          {"memory", physical_memory()}};
}

std::vector<json> introductions(Rendezvous& rendezvous, const std::string& host) {
  const std::string introduction = introduce(rendezvous.job_rank(), host).dump();
  const json own = json::parse(introduction);
  std::vector<json> ranks;
  for (const std::string& text : rendezvous.gather(introduction)) {
    const json theirs = json::parse(text, nullptr, false);
    const bool alike =
        theirs.is_object() &&
        std::all_of(own.items().begin(), own.items().end(), [&](const auto& item) {
          return theirs.contains(item.key()) && theirs.at(item.key()).type() == item.value().type();
        });
    if (!alike)
      throw Mismatch(
          "rank {} does not set up shared memory as rank {} does; start all workers with the same "
          "transport and the same version of Lockstep",
          ranks.size(), rendezvous.rank());
    ranks.push_back(theirs);
  }
  return ranks;
}

void refuse_other_hosts(const std::vector<json>& ranks) {
  for (size_t rank = 1; rank < ranks.size(); ++rank)
    if (ranks[rank].at("identity") != ranks[0].at("identity"))
      throw BadInput(
          "transport shm: rank 0 is on {} and rank {} on {}, which share no memory; use the "
          "transport hybrid or tcp",
          ranks[0].at("host").get<std::string>(), rank, ranks[rank].at("host").get<std::string>());
}

int create_file(size_t bytes) {
  const int file = memfd_create("lockstep", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0)
    throw Error(fmt::format("transport shm: cannot make shared memory: {}", std::strerror(errno)));
  // Sealed: if the file shrank, accessing it would kill the process.
  fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return file;
}

int open_file_of(const std::string& address) {
  const int file = ::open(address.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0)
    throw Error(
        fmt::format("transport shm: rank 0's memory cannot be opened at {}: {}; run all workers as "
                    "the same user",
                    address, std::strerror(errno)));
  return file;
}

}  // namespace

SharedSegment::SharedSegment(int rank, int world, uint64_t heap_bytes)
    : rank_(rank), world_(world), heap_(heap_bytes) {
  lay_out();
}

void SharedSegment::lay_out() {
  const auto ranks = static_cast<size_t>(world_);
  const auto place = [&](size_t bytes) {
    return std::exchange(bytes_, round_up(bytes_ + bytes, kCacheLine));
  };
  last_words_ = place(sizeof(LastWords));
  whereabouts_ = place(sizeof(WhereaboutsNote) * ranks);
  bells_ = place(sizeof(Bell) * ranks);
  pulses_ = place(sizeof(Pulse) * ranks);
  notices_ = place(sizeof(Notice) * 2 * ranks);
  finishes_ = place(sizeof(Finish) * ranks);
  queues_ = place(sizeof(Queue) * ranks * ranks);
  bytes_ = round_up(bytes_, Heap::kPage);
  mailboxes_ = place(kMailboxBytes * 2 * ranks);
  heaps_ = place(heap_.bytes() * ranks);
}

void SharedSegment::map(int file) {
  file_ = file;
  void* const base =
      mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (base == MAP_FAILED)
    throw Error(fmt::format("transport shm: cannot reserve {} of address space: {}; see ulimit -v",
                            format_bytes(static_cast<int64_t>(bytes_)), std::strerror(errno)));
  base_ = static_cast<std::byte*>(base);
}

SharedSegment::~SharedSegment() {
  if (base_ != nullptr) munmap(base_, bytes_);
  if (file_ >= 0) close(file_);
}

std::shared_ptr<SharedSegment> SharedSegment::open(Rendezvous& rendezvous,
                                                   const std::string& host) {
  const std::vector<json> ranks = introductions(rendezvous, host);
  refuse_other_hosts(ranks);

  const int world = rendezvous.world_size();
  std::shared_ptr<SharedSegment> segment(new SharedSegment(
      rendezvous.rank(), world, round_up(ranks[0].at("memory").get<uint64_t>(), Heap::kPage)));
  std::set<int> processors;
  for (int rank = 0; rank < world; ++rank) {
    const json& told = ranks[static_cast<size_t>(rank)];
    segment->peers_.push_back({told.at("rank").get<int>(), told.at("host").get<std::string>(),
                               told.at("pid").get<int>()});
    for (const int processor : told.at("processors")) processors.insert(processor);
  }
  segment->crowded_ = processors.size() < static_cast<size_t>(world);

  std::string address;
  if (segment->rank_ == 0) {
    segment->map(create_file(segment->bytes_));
    address = fmt::format("/proc/{}/fd/{}", getpid(), segment->file_);
  }
  address = rendezvous.gather(address).front();
  if (segment->rank_ != 0) segment->map(open_file_of(address));
  rendezvous.gather("");  // rank 0 must not end before all have opened its file
  return segment;
}

std::optional<uint64_t> SharedSegment::offset_of(const void* data) const {
  const auto* const begin = address(rank_, 0);
  const auto* const place = static_cast<const std::byte*>(data);
  if (place < begin || place >= begin + heap_.bytes()) return std::nullopt;
  return static_cast<uint64_t>(place - begin);
}

Memory SharedSegment::allocate(const std::shared_ptr<SharedSegment>& segment, size_t bytes) {
  const auto offset = segment->heap_.take(bytes);
  const auto fail = [&](const char* why) {
    throw Error(fmt::format("transport shm: rank {} asked for {} of shared memory: {}",
                            segment->rank_, format_bytes(static_cast<int64_t>(bytes)), why));
  };
  if (!offset) fail("more than this machine has");
  std::byte* const data = segment->address(segment->rank_, *offset);
  // Allocates the pages now: a lack of memory on first use would kill the process.
  if (const int error = posix_fallocate(segment->file_, data - segment->base_,
                                        static_cast<off_t>(std::max<size_t>(bytes, 1)));
      error != 0) {
    segment->heap_.give_back(*offset);
    fail(std::strerror(error));
  }
  return {std::shared_ptr<std::byte>(data, [segment, offset = *offset, bytes](
                                               std::byte*) { segment->release(offset, bytes); }),
          bytes};
}

// Returns the pages to the system, so that the range is zeroed for its next user.
void SharedSegment::release(uint64_t offset, size_t bytes) {
  const size_t size = round_up(std::max<size_t>(bytes, 1), Heap::kPage);
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, address(rank_, offset) - base_,
            static_cast<off_t>(size));
  heap_.give_back(offset);
}

}  // namespace lockstep::transport
