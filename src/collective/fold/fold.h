#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/element.h"
#include "collective/fold/kernels.h"
#include "transport/device.h"
#include "transport/transport.h"

namespace lockstep::collective {

/// The function that folds elements of a type: into = into (+, min, max) from. A mean adds here and
/// uses `divider` at the end. f16 and bf16 are added in float and rounded to nearest even at every
/// addition, so that the result depends only on the tree. min and max of a NaN are NaN. Integers
/// wrap around.
transport::Combine combiner(Type type, Operation operation,
                            Instructions instructions = Instructions::best);

/// data[i] = data[i] / n, for means: a division (of integers: towards zero), not a product with
/// 1/n.
using Divide = void (*)(std::byte* data, size_t bytes, int64_t n);
Divide divider(Type type, Instructions instructions = Instructions::best);

/// The two above, in host memory.
transport::Arithmetic& host_arithmetic();

/// Folds many vectors along the canonical tree over shards (collective/plan/shards.h), in blocks
/// that stay in the cache, and writes the result to all of `results`, which may be among `terms`.
/// Term i is the sum of `widths[i]` shards that are one node of that tree; without widths, every
/// term is one shard.
struct TreeFold {
  std::span<const std::byte* const> terms;
  std::span<const int64_t> widths;
  std::span<std::byte* const> results;
  size_t bytes;
  Type type;
  Operation operation;
  int64_t divide_by = 1;
  Instructions instructions = Instructions::best;
};
void fold_tree(const TreeFold& fold);

}  // namespace lockstep::collective
