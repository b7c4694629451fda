// An all-gather of pieces of tensors, chunk by chunk, so that it needs little memory.
//
// A rank's *stream* is a header and the bytes of its pieces, one after another. All streams are cut
// at the same places into *chunks*. A chunk's memory has a slice for each rank: a rank copies its
// own bytes there, all-gathers, and copies the others' bytes to where they belong. While a chunk is
// being gathered, the one before it is copied.
#include "parallel/parameter_exchange.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace lockstep::parallel {
namespace {

constexpr int64_t kHeader = 64;
constexpr int64_t kPlaceAlignment = 16;  // of pieces: the largest element
// Of the memory of one chunk; more would not fit into the cache.
constexpr int64_t kChunkBytes = int64_t{4} << 20;
constexpr int64_t kLeastPerRank = int64_t{64} << 10;

int64_t round_up(int64_t bytes, int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

uint64_t digest_of(const std::vector<char>& are_sent) {
  uint64_t digest = 14695981039346656037ULL;  // FNV-1a
  for (const char sent : are_sent)
    digest = (digest ^ static_cast<uint64_t>(sent)) * 1099511628211ULL;
  return digest;
}

enum class Copy { to_stream, from_stream };

}  // namespace

at::Tensor elements_of(const at::Tensor& tensor, Range range) {
  return tensor.as_strided({range.size()}, {1}, tensor.storage_offset() + range.begin);
}

struct ParameterExchange::Stream {
  struct Part {
    at::Tensor elements;
    Range bytes;  ///< in the stream
  };
  std::vector<Part> parts;
  int64_t end = kHeader;

  // Copies what `range` of the stream holds to or from `memory`.
  void copy(Copy direction, Range range, std::byte* memory) const {
    for (const auto& [elements, bytes] : parts) {
      const Range met = {std::max(range.begin, bytes.begin), std::min(range.end, bytes.end)};
      if (met.empty()) continue;
      const auto size = static_cast<int64_t>(elements.element_size());
      const int64_t first = (met.begin - bytes.begin) / size, count = met.size() / size;
      const at::Tensor there = at::from_blob(memory + (met.begin - range.begin), {count},
                                             at::TensorOptions(elements.scalar_type()));
      const at::Tensor here = elements.narrow(0, first, count);
      if (direction == Copy::to_stream)
        there.copy_(here);
      else
        here.copy_(there);
    }
  }
};

struct ParameterExchange::Chunk {
  Range range;  ///< of every stream
  size_t number;
  int64_t longest;  ///< bytes per rank of any chunk
};

ParameterExchange::ParameterExchange(collective::Communicator& group, std::vector<Pieces> pieces)
    : group_(group), pieces_(std::move(pieces)) {}

std::vector<ParameterExchange::Stream> ParameterExchange::streams_of(
    const std::vector<at::Tensor>& parameters, const std::vector<char>& are_sent) const {
  std::vector<Stream> streams;
  for (const Pieces& pieces : pieces_) {
    Stream& stream = streams.emplace_back();
    for (const auto& [parameter, range] : pieces) {
      if (are_sent[parameter] == 0 || range.empty()) continue;
      const at::Tensor elements = elements_of(parameters[parameter].detach(), range);
      const int64_t begin = round_up(stream.end, kPlaceAlignment);
      stream.end = begin + static_cast<int64_t>(elements.nbytes());
      stream.parts.push_back({elements, {begin, stream.end}});
    }
  }
  return streams;
}

std::vector<ParameterExchange::Chunk> ParameterExchange::chunks_of(
    const std::vector<Stream>& streams) const {
  int64_t end = 0;
  for (const Stream& stream : streams) end = std::max(end, round_up(stream.end, kHeader));
  const int64_t share = round_up(kChunkBytes / group_.world_size(), kHeader);
  const int64_t longest = std::min(end, std::max(kLeastPerRank, share));
  std::vector<Chunk> chunks;
  for (int64_t begin = 0; begin < end; begin += longest)
    chunks.push_back({{begin, std::min(begin + longest, end)}, chunks.size(), longest});
  return chunks;
}

std::byte* ParameterExchange::memory_of(const Chunk& chunk, int rank) const {
  const auto half = static_cast<int64_t>(chunk.number % 2);
  return memory_.data.get() + half * chunk.longest * group_.world_size() +
         rank * chunk.range.size();
}

collective::Pending ParameterExchange::start(const Chunk& chunk, const Stream& own,
                                             uint64_t header) {
  std::byte* const memory = memory_of(chunk, group_.rank());
  if (chunk.number == 0) std::memcpy(memory, &header, sizeof(header));
  own.copy(Copy::to_stream, chunk.range, memory);
  return group_.all_gather_async(
      {memory_of(chunk, 0), chunk.range.size() * group_.world_size(), Type::u8}, {}, memory_.data);
}

void ParameterExchange::finish(const Chunk& chunk, const collective::Pending& pending,
                               const std::vector<Stream>& streams, uint64_t header) const {
  pending.wait();
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    uint64_t theirs = header;
    if (chunk.number == 0) std::memcpy(&theirs, memory_of(chunk, rank), sizeof(theirs));
    if (theirs != header)
      throw Mismatch(
          "ShardedOptimizer: rank {} has gradients of other parameters than rank {}; let "
          "DistributedDataParallel average them, or give all workers the same",
          rank, group_.rank());
    if (rank != group_.rank())
      streams[static_cast<size_t>(rank)].copy(Copy::from_stream, chunk.range,
                                              memory_of(chunk, rank));
  }
}

void ParameterExchange::run(const std::vector<at::Tensor>& parameters,
                            const std::vector<char>& are_sent) {
  if (group_.world_size() == 1) return;
  const std::vector<Stream> streams = streams_of(parameters, are_sent);
  const Stream& own = streams[static_cast<size_t>(group_.rank())];
  const std::vector<Chunk> chunks = chunks_of(streams);
  const auto bytes = static_cast<size_t>(2 * chunks[0].longest * group_.world_size());
  if (memory_.bytes < bytes) {
    memory_ = {};
    memory_ = group_.allocate(bytes);
  }
  const uint64_t header = digest_of(are_sent);
  collective::Pending last = start(chunks[0], own, header);
  for (size_t i = 1; i < chunks.size(); ++i) {
    const collective::Pending next = start(chunks[i], own, header);
    finish(chunks[i - 1], last, streams, header);
    last = next;
  }
  finish(chunks.back(), last, streams, header);
}

}  // namespace lockstep::parallel
