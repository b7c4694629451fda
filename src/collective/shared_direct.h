#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/element.h"
#include "transport/shm/shared_board.h"

namespace lockstep::collective {

/// The plan `direct`, run where ranks see each other's memory: no message and no copy. Each rank
/// folds its slice of everyone's terms along the canonical tree and writes it into everyone's
/// bucket: it reads and writes as many bytes as the bucket has. Small buckets go through mailboxes:
/// everyone reads everyone's and folds for itself, and nobody waits for anybody twice.
class SharedDirect {
 public:
  explicit SharedDirect(transport::SharedBoard& board) : board_(board) {}

  struct Task {
    std::span<std::byte* const> terms;    ///< this rank's, the first is its bucket
    std::span<const int64_t> all_widths;  ///< shards in each term of rank 0, rank 1, ...; none: 1
    int64_t count = 0;
    Type type = Type::f32;
    Operation operation = Operation::sum;
    int64_t divide_by = 1;
  };

  /// Collective. Terms that are not in shared memory are copied there and the result back.
  void all_reduce(const transport::Label& label, const Task& task, transport::Transport& transport,
                  Deadline deadline);

 private:
  void through_mailboxes(const transport::Label& label, const Task& task, Deadline deadline);
  void in_place(const transport::Label& label, const Task& task, Deadline deadline);
  std::span<std::byte* const> shared_terms(const Task& task, transport::Transport& transport);

  transport::SharedBoard& board_;
  transport::Memory copies_;  ///< of terms that are not in shared memory
  std::vector<std::byte*> copy_terms_;
  // Kept between calls only so as not to allocate.
  std::vector<uint64_t> offsets_;
  std::vector<const std::byte*> terms_;
  std::vector<std::byte*> results_;
};

}  // namespace lockstep::collective
