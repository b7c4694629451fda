#include "lockstep/sampler.h"

#include <torch/serialize/archive.h>

#include <algorithm>
#include <cstdio>

#include "data/loader.h"
#include "lockstep/error.h"

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
  std::vector<size_t> mine;
  size_t next = 0;

  size_t mine_count() const {
    const auto workers = static_cast<size_t>(world);
    switch (options.uneven) {
      case Uneven::pad:
        return (samples + workers - 1) / workers;
      case Uneven::drop:
        return samples / workers;
      case Uneven::keep:
        break;
    }
    return (samples + workers - 1 - static_cast<size_t>(rank)) / workers;
  }

  void choose() {
    const auto order = data::epoch_order(
        static_cast<int64_t>(samples),
        options.shuffle ? data::Order::shuffled : data::Order::sequential, options.seed, epoch);
    mine.clear();
    for (size_t i = 0; i < mine_count(); ++i) {
      const size_t place = i * static_cast<size_t>(world) + static_cast<size_t>(rank);
      mine.push_back(static_cast<size_t>(order[place % samples]));
    }
    next = 0;
  }

  // The second time through the data without a new epoch is the mistake everybody makes once, and
  // all workers at once.
  void warn_if_forgotten() {
    if (++resets < 2 || epoch_was_set || warned || !options.shuffle || rank != 0) return;
    warned = true;
    std::fputs(
        "lockstep: DistributedSampler::set_epoch was never called: every epoch has the same order "
        "of samples; call it at the beginning of each\n",
        stderr);
  }
};

DistributedSampler::DistributedSampler(size_t samples, const World& world,
                                       const SamplerOptions& options)
    : DistributedSampler(samples, world.rank(), world.size(), options) {}

DistributedSampler::DistributedSampler(size_t samples, int rank, int world,
                                       const SamplerOptions& options)
    : state_(std::make_shared<State>(State{samples, rank, world, options})) {
  if (rank < 0 || rank >= world)
    throw BadInput("sampler for rank {} of {}: expected a rank from 0 to {}", rank, world,
                   world - 1);
  const size_t least = options.uneven == Uneven::keep ? 1 : static_cast<size_t>(world);
  if (samples < (options.uneven == Uneven::pad ? 1 : least))
    throw BadInput("sampler of {} samples for {} workers: too few", samples, world);
  state_->choose();
}

void DistributedSampler::set_epoch(int64_t epoch) {
  state_->epoch_was_set = true;
  if (epoch == state_->epoch) return;
  state_->epoch = epoch;
  state_->choose();
}

size_t DistributedSampler::size() const {
  return state_->mine.size();
}

void DistributedSampler::reset(torch::optional<size_t> new_size) {
  if (new_size) state_->samples = *new_size;
  state_->warn_if_forgotten();
  state_->choose();
}

torch::optional<std::vector<size_t>> DistributedSampler::next(size_t batch_size) {
  State& state = *state_;
  const size_t end = std::min(state.next + batch_size, state.mine.size());
  if (state.next == end) return torch::nullopt;
  const auto begin = state.mine.begin();
  std::vector<size_t> batch(begin + static_cast<int64_t>(state.next),
                            begin + static_cast<int64_t>(end));
  state.next = end;
  return batch;
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", torch::tensor(state_->epoch, torch::kInt64), /*is_buffer=*/true);
  archive.write("next", torch::tensor(static_cast<int64_t>(state_->next), torch::kInt64),
                /*is_buffer=*/true);
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  torch::Tensor epoch, next;
  archive.read("epoch", epoch, /*is_buffer=*/true);
  archive.read("next", next, /*is_buffer=*/true);
  set_epoch(epoch.item<int64_t>());
  state_->next = static_cast<size_t>(next.item<int64_t>());
}

}  // namespace lockstep
