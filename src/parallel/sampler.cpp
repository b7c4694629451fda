#include "lockstep/sampler.h"

#include <torch/serialize/archive.h>

#include <algorithm>
#include <cstdio>

#include "collective/plan/shards.h"
#include "data/loader.h"
#include "lockstep/error.h"
#include "parallel/world_state.h"

namespace lockstep {

struct DistributedSampler::State {
  size_t samples;
  int rank;
  int world;
  SamplerOptions options;

  int64_t epoch = 0;
  bool epoch_was_set = false;
  int resets = 0;
  bool warned = false;
  std::vector<std::vector<size_t>> mine;  ///< samples of each of this worker's shards
  size_t shard = 0;                       ///< the next shard
  size_t next = 0;                        ///< in every shard

  size_t shards() const {
    return static_cast<size_t>(options.shards == 0 ? world : options.shards);
  }

  size_t count_of(size_t of_shard) const {
    switch (options.uneven) {
      case Uneven::pad:
        return (samples + shards() - 1) / shards();
      case Uneven::drop:
        return samples / shards();
      case Uneven::keep:
        break;
    }
    return (samples + shards() - 1 - of_shard) / shards();
  }

  // Shard s has every shards()-th sample of the epoch's order, starting with the s-th.
  void choose() {
    const auto order = data::epoch_order(
        static_cast<int64_t>(samples),
        options.shuffle ? data::SampleOrder::shuffled : data::SampleOrder::sequential, options.seed,
        epoch);
    const auto bounds = collective::Shards::even(static_cast<int64_t>(shards()), world).bounds();
    mine.clear();
    for (int64_t s = bounds[static_cast<size_t>(rank)]; s < bounds[static_cast<size_t>(rank) + 1];
         ++s) {
      std::vector<size_t>& chosen = mine.emplace_back();
      for (size_t i = 0; i < count_of(static_cast<size_t>(s)); ++i)
        chosen.push_back(
            static_cast<size_t>(order[(i * shards() + static_cast<size_t>(s)) % samples]));
    }
    shard = next = 0;
  }

  // A second pass over the data without set_epoch is a common mistake, which all workers make at
  // once.
  void warn_if_forgotten() {
    if (++resets < 2 || epoch_was_set || warned || !options.shuffle || rank != 0) return;
    warned = true;
    std::fputs(
        "lockstep: DistributedSampler::set_epoch was never called: every epoch has the same order "
        "of samples; call it at the start of each epoch\n",
        stderr);
  }
};

DistributedSampler::DistributedSampler(size_t samples, const World& world,
                                       const SamplerOptions& options)
    : DistributedSampler(samples, world.rank(), world.size(), options) {
  // Uneven::keep is for evaluation.
  if (options.uneven != Uneven::keep) world.state_->sampler_shards.insert(options.shards);
}

DistributedSampler::DistributedSampler(size_t samples, int rank, int world,
                                       const SamplerOptions& options)
    : state_(std::make_shared<State>(State{samples, rank, world, options})) {
  if (rank < 0 || rank >= world)
    throw BadInput("sampler for rank {} of {}: expected a rank from 0 to {}", rank, world,
                   world - 1);
  if (options.shards != 0 && (options.shards < world || options.uneven == Uneven::keep))
    throw BadInput(
        "sampler of {} shards for {} workers: expected at least one shard per worker, and not "
        "Uneven::keep",
        options.shards, world);
  const size_t least = options.uneven == Uneven::drop ? state_->shards() : 1;
  if (samples < least)
    throw BadInput("sampler of {} samples for {} workers: expected at least {}", samples, world,
                   least);
  state_->choose();
}

void DistributedSampler::set_epoch(int64_t epoch) {
  state_->epoch_was_set = true;
  if (epoch == state_->epoch) return;
  state_->epoch = epoch;
  state_->choose();
}

size_t DistributedSampler::size() const {
  size_t samples = 0;
  for (const auto& shard : state_->mine) samples += shard.size();
  return samples;
}

void DistributedSampler::reset(torch::optional<size_t> new_size) {
  if (new_size) state_->samples = *new_size;
  state_->warn_if_forgotten();
  state_->choose();
}

torch::optional<std::vector<size_t>> DistributedSampler::next(size_t batch_size) {
  State& state = *state_;
  const std::vector<size_t>& all = state.mine[state.shard];
  const size_t end = std::min(state.next + batch_size, all.size());
  if (state.next == end) return torch::nullopt;
  std::vector<size_t> batch(all.begin() + static_cast<int64_t>(state.next),
                            all.begin() + static_cast<int64_t>(end));
  if (++state.shard == state.mine.size()) {
    state.shard = 0;
    state.next = end;
  }
  return batch;
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", torch::tensor(state_->epoch, torch::kInt64), /*is_buffer=*/true);
  archive.write("next", torch::tensor(static_cast<int64_t>(state_->next), torch::kInt64),
                /*is_buffer=*/true);
  archive.write("shard", torch::tensor(static_cast<int64_t>(state_->shard), torch::kInt64),
                /*is_buffer=*/true);
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  torch::Tensor epoch, next, shard;
  archive.read("epoch", epoch, /*is_buffer=*/true);
  archive.read("next", next, /*is_buffer=*/true);
  archive.read("shard", shard, /*is_buffer=*/true);
  set_epoch(epoch.item<int64_t>());
  state_->next = static_cast<size_t>(next.item<int64_t>());
  state_->shard = static_cast<size_t>(shard.item<int64_t>());
}

}  // namespace lockstep
