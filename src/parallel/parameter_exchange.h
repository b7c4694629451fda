#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "collective/communicator.h"
#include "parallel/parameter_shares.h"

namespace lockstep::parallel {

/// A tensor's elements `range` in the order of memory, as a vector that shares the memory. The
/// tensor must be dense.
at::Tensor elements_of(const at::Tensor& tensor, Range range);

/// Sends pieces of parameters to all workers.
class ParameterExchange {
 public:
  /// `pieces` of every rank; the communicator must outlive this.
  ParameterExchange(collective::Communicator& group, std::vector<Pieces> pieces);

  /// Collective: every rank sends its pieces of the parameters that `are_sent`, which must be the
  /// same on all ranks (else Mismatch), and receives those of the others.
  void run(const std::vector<at::Tensor>& parameters, const std::vector<char>& are_sent);

 private:
  struct Stream;
  struct Chunk;

  std::vector<Stream> streams_of(const std::vector<at::Tensor>& parameters,
                                 const std::vector<char>& are_sent) const;
  std::vector<Chunk> chunks_of(const std::vector<Stream>& streams) const;
  std::byte* memory_of(const Chunk& chunk, int rank) const;
  collective::Pending start(const Chunk& chunk, const Stream& own, uint64_t header);
  void finish(const Chunk& chunk, const collective::Pending& pending,
              const std::vector<Stream>& streams, uint64_t header) const;

  collective::Communicator& group_;
  const std::vector<Pieces> pieces_;  ///< by rank
  transport::Memory memory_;          ///< of two chunks
};

}  // namespace lockstep::parallel
