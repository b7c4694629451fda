#pragma once

#include <torch/data/samplers/base.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/world.h"

namespace lockstep {

/// What to do if the number of samples is not a multiple of the number of workers.
enum class Uneven {
  pad,   ///< use some samples twice, so that all workers have the same number
  drop,  ///< leave some samples out
  keep,  ///< some workers have one more: for evaluation, where no sample may count twice
};

/// Options of DistributedSampler; must be the same on all workers.
struct SamplerOptions {
  bool shuffle = true;          ///< false: in the order of the data set
  uint64_t seed = 1;            ///< of the random order
  Uneven uneven = Uneven::pad;  ///< how samples are divided
  /// Set this to DdpOptions::shards. `next` then returns the samples of one shard at a time, for
  /// each of this worker's shards in turn, so that the samples of a shard in a step do not depend
  /// on the number of workers; the loader's batch size is that of a shard. Not with Uneven::keep.
  int64_t shards = 0;
};

/// Gives each worker its part of a data set: every `world.size()`-th sample of an order that is the
/// same on all workers and different in every epoch. For `torch::data::make_data_loader`.
///
///     lockstep::DistributedSampler sampler(dataset.size().value(), world);
///     auto loader = torch::data::make_data_loader(std::move(dataset), sampler, 64);
///     for (int epoch = 0; epoch < epochs; ++epoch) {
///       sampler.set_epoch(epoch);  // the loader shares it
///       for (auto& batch : *loader) train_on(batch);
///     }
///
/// Copies share their state, so that `set_epoch` also affects the copy in a loader. A loader that
/// begins another epoch without `set_epoch` gets the same order again; rank 0 then prints a warning
/// on stderr. If you call `next` yourself: at the end of an epoch it returns nullopt until
/// `set_epoch` or `reset` begins the next one.
class DistributedSampler : public torch::data::samplers::Sampler<> {
 public:
  /// The samples of this worker.
  DistributedSampler(size_t samples, const World& world, const SamplerOptions& options = {});
  /// The samples of worker `rank` of `world`.
  DistributedSampler(size_t samples, int rank, int world, const SamplerOptions& options = {});

  /// Sets the epoch, on which the order depends. Call it at the start of each epoch.
  void set_epoch(int64_t epoch);

  /// Number of samples of this worker in an epoch.
  size_t size() const;

  /// Starts an epoch, from now on of `new_size` samples if it is set. Called by a loader.
  void reset(torch::optional<size_t> new_size = torch::nullopt) override;
  /// The next samples of this worker, at most `batch_size`; nullopt at the end of the epoch.
  torch::optional<std::vector<size_t>> next(size_t batch_size) override;
  /// Saves the epoch and the position in it.
  void save(torch::serialize::OutputArchive& archive) const override;
  /// Restores them.
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
