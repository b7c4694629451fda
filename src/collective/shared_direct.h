#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/element.h"
#include "transport/shm/shared_board.h"

namespace lockstep::collective {

/// All-reduce by `direct`, and reduce-scatter, for ranks that see each other's memory: no messages
/// and no copies. Each rank folds its slice of all ranks' terms along the canonical tree and writes
/// it into all ranks' buckets, or only into its own; so an all-reduce reads and writes as many
/// bytes as the bucket has. Small buckets go through mailboxes: every rank reads the mailboxes of
/// all and folds everything itself, so that ranks wait for each other once instead of twice. An
/// all-gather reads the other ranks' slices where they are.
class SharedDirect {
 public:
  explicit SharedDirect(transport::SharedBoard& board) : board_(board) {}

  /// Which buckets a rank writes its slice to: those of all ranks (all-reduce), with slices that
  /// end at cache lines; or its own (reduce-scatter), with the slices of base/range.h.
  enum class Results { of_all, own_slice };

  /// What to reduce.
  struct Reduction {
    std::span<std::byte* const> terms;  ///< of this rank; the first is its bucket
    std::span<const int64_t>
        all_widths;  ///< shards in each term of rank 0, rank 1, ...; if empty, 1
    Results results = Results::of_all;
    int64_t count = 0;
    Type type = Type::f32;
    Operation operation = Operation::sum;
    int64_t divide_by = 1;
  };

  /// Collective. Copies terms that are not in shared memory there, and the result back. Returns how
  /// many bytes went from this rank to others: of its terms that they read, and of its slice that
  /// it wrote into their buckets.
  int64_t reduce(const transport::Label& label, const Reduction& reduction,
                 transport::Transport& transport, Deadline deadline);

  /// Collective: an all-gather of the slices of base/range.h. Copies this rank's slice to shared
  /// memory if the buffer is not there. Returns how many bytes others read of it.
  int64_t gather(const transport::Label& label, std::byte* buffer, int64_t count, Type type,
                 transport::Transport& transport, Deadline deadline);

 private:
  int64_t through_mailboxes(const transport::Label& label, const Reduction& reduction,
                            Deadline deadline);
  int64_t in_place(const transport::Label& label, const Reduction& reduction, Deadline deadline);
  std::span<std::byte* const> shared_terms(const Reduction& reduction,
                                           transport::Transport& transport);
  void make_room(size_t bytes, transport::Transport& transport);

  transport::SharedBoard& board_;
  transport::Memory copies_;  ///< of terms that are not in shared memory
  std::vector<std::byte*> copy_terms_;
  // Kept between calls only to avoid allocations.
  std::vector<uint64_t> offsets_;
  std::vector<const std::byte*> terms_;
  std::vector<std::byte*> results_;
};

}  // namespace lockstep::collective
