#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "collective/communicator.h"
#include "collective/fold/fold.h"
#include "parallel/shard_schedule.h"

namespace lockstep::parallel {

/// A vector of numbers per shard that is reduced over all shards along the canonical tree: sums of
/// losses, counts and statistics, or maxima.
///
///     for each pass: write to vector.slot(pass), then vector.fold(pass);
///     vector.start().wait();      // vector.result() is the sum over all shards
template <typename Value>
class ShardedVector {
 public:
  ShardedVector(int64_t count, const collective::Shards& shards, collective::Communicator& group,
                Operation operation = Operation::sum)
      : count_(count),
        operation_(operation),
        shards_(shards),
        schedule_(schedule_of(shards_, group.rank())),
        group_(group),
        stride_((static_cast<size_t>(count) * sizeof(Value) + 63) / 64 * 64),
        memory_(group.allocate(stride_ * static_cast<size_t>(schedule_.slots))) {}

  std::span<Value> slot(int pass) const {
    return at(schedule_.passes[static_cast<size_t>(pass)].slot);
  }
  void fold(int pass) const {
    const auto add = collective::combiner(kType, operation_);
    for (const auto& [into, from] : schedule_.passes[static_cast<size_t>(pass)].folds)
      add(reinterpret_cast<std::byte*>(at(into).data()),
          reinterpret_cast<std::byte*>(at(from).data()), at(into).size_bytes());
  }

  collective::Pending start(collective::Cargo cargo = {}) const {
    std::vector<collective::Buffer> terms;
    for (size_t i = 0; i < shards_.terms_of(group_.rank()).size(); ++i)
      terms.push_back(
          {reinterpret_cast<std::byte*>(at(static_cast<int>(i)).data()), count_, kType});
    return group_.all_reduce_async(terms, shards_, operation_, cargo);
  }

  std::span<Value> result() const { return at(0); }

 private:
  static constexpr Type kType = std::is_same_v<Value, double>  ? Type::f64
                                : std::is_same_v<Value, float> ? Type::f32
                                                               : Type::i64;
  static_assert(kType != Type::i64 || std::is_same_v<Value, int64_t>);

  std::span<Value> at(int slot) const {
    return {reinterpret_cast<Value*>(memory_.data.get() + stride_ * static_cast<size_t>(slot)),
            static_cast<size_t>(count_)};
  }

  int64_t count_;
  Operation operation_;
  collective::Shards shards_;
  ShardSchedule schedule_;
  collective::Communicator& group_;
  size_t stride_;
  transport::Memory memory_;
};

}  // namespace lockstep::parallel
