#pragma once

#include <torch/data/samplers/base.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/world.h"

namespace lockstep {

/// What to do when samples do not divide by workers.
enum class Uneven {
  pad,   ///< some samples come twice, so that all workers have equally many
  drop,  ///< some samples are left out
  keep,  ///< some workers have one more: for evaluation, where no sample may count twice
};

/// How DistributedSampler orders and deals out samples: the same on all workers.
struct SamplerOptions {
  bool shuffle = true;          ///< else in their order
  uint64_t seed = 1;            ///< of the order
  Uneven uneven = Uneven::pad;  ///< what to do when samples do not divide by workers
  /// As DdpOptions::shards: `next` then gives one shard's samples of a step after another, of the
  /// shards that this worker computes, so that which samples a shard has in a step does not depend
  /// on the number of workers. The loader's batch is then a shard's. Not with Uneven::keep.
  int64_t shards = 0;
};

/// Gives each worker its part of a data set's samples: every `world.size()`-th of an order that all
/// share and that changes with the epoch. A LibTorch sampler, for `torch::data::make_data_loader`.
///
///     lockstep::DistributedSampler sampler(dataset.size().value(), world);
///     auto loader = torch::data::make_data_loader(std::move(dataset), sampler, 64);
///     for (int epoch = 0; epoch < epochs; ++epoch) {
///       sampler.set_epoch(epoch);  // the loader shares it
///       for (auto& batch : *loader) train_on(batch);
///     }
///
/// A handle: a loader's copy and this one are the same sampler. A loop that never calls `set_epoch`
/// sees the same order in every epoch, and rank 0 warns of that on stderr.
class DistributedSampler : public torch::data::samplers::Sampler<> {
 public:
  /// The part of this worker.
  DistributedSampler(size_t samples, const World& world, const SamplerOptions& options = {});
  /// The part of worker `rank` of `world`.
  DistributedSampler(size_t samples, int rank, int world, const SamplerOptions& options = {});

  /// Says which epoch it is, before it begins: the order of samples depends on it.
  void set_epoch(int64_t epoch);

  /// How many samples this worker has in an epoch.
  size_t size() const;

  /// Begins an epoch, of `new_size` samples from here on. A loader calls it.
  void reset(torch::optional<size_t> new_size = torch::nullopt) override;
  /// The next samples of this worker, at most `batch_size`; nothing at the epoch's end.
  torch::optional<std::vector<size_t>> next(size_t batch_size) override;
  /// Writes the epoch and how far it has come.
  void save(torch::serialize::OutputArchive& archive) const override;
  /// Reads what `save` wrote.
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
