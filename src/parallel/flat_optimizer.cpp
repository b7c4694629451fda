#include "parallel/flat_optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "lockstep/error.h"
#include "parallel/on_host.h"
#include "virtual_devices/accounts.h"

namespace lockstep::parallel {

using collective::Buffer;
using collective::Cargo;

namespace {

constexpr auto kFloat = static_cast<int64_t>(sizeof(float));

std::span<float> floats_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

at::Tensor elements(const at::Tensor& vector, Range range) {
  return vector.slice(0, range.begin, range.end);
}

}  // namespace

FlatOptimizer::FlatOptimizer(Replica& replica, const optim::OptimizerOptions& options, State state)
    : replica_(replica), divided_(state == State::divided && replica.group().world_size() > 1) {
  const std::vector<optim::Section> sections =
      replica_.flat_parameters().sections(options.decay_bias_and_norm);
  for (const Range& range : ranges())
    shares_.push_back({range, optim::make_optimizer(options, clipped(sections, range))});
  int64_t bytes = 0;
  for (const Piece& piece : this->state()) bytes += static_cast<int64_t>(piece.values.size_bytes());
  memory_ = MemoryCharge(virtual_devices::account_of(replica_.flat_parameters().values().device()),
                         bytes, MemoryUse::optimizer);
}

std::vector<Range> FlatOptimizer::ranges() const {
  const collective::Communicator& group = replica_.group();
  if (divided_) return slices_of_rank(replica_.layout(), group.world_size(), group.rank());
  return {{0, replica_.flat_parameters().values().numel()}};
}

void FlatOptimizer::step(double rate, int64_t update) {
  if (!divided_) return this->update(shares_.front(), rate, update);
  partly_updated_ = true;
  update_and_gather(rate, update);
  partly_updated_ = false;
}

void FlatOptimizer::update(const Share& share, double rate, int64_t update) {
  on_host({elements(replica_.flat_parameters().values(), share.range),
           elements(replica_.flat_gradients(), share.range)},
          [&](const std::vector<at::Tensor>& all) {
            share.optimizer->step(floats_of(all[0]), floats_of(all[1]), rate, update);
          });
}

void FlatOptimizer::update_and_gather(double rate, int64_t update) {
  std::vector<collective::Pending> gathers;
  for (const Share& share : shares_) {
    this->update(share, rate, update);
    gathers.push_back(start_gather(gathers.size()));
  }
  for (size_t bucket = 0; bucket < gathers.size(); ++bucket) {
    gathers[bucket].wait();
    const GradientLayout::Bucket& about = replica_.layout().buckets[bucket];
    replica_.parameter_memory().take_back({0, about.begin, about.end});
  }
}

// Only this worker's share is copied to host memory, where the others' arrive beside it.
collective::Pending FlatOptimizer::start_gather(size_t bucket) {
  const GradientLayout::Bucket& about = replica_.layout().buckets[bucket];
  const Range& own = shares_[bucket].range;
  const ExchangeMemory& memory = replica_.parameter_memory();
  ExchangeMemory::Staged staged = memory.stage({{0, own.begin * kFloat, own.end * kFloat}});
  std::byte* const begin = staged.data.front() - (own.begin * kFloat - about.begin);
  return replica_.group().all_gather_async(Buffer{begin, about.count(), about.type, staged.place},
                                           {Cargo::Kind::parameters, static_cast<int>(bucket)},
                                           memory.owner(), std::move(staged.wait));
}

std::vector<std::string> FlatOptimizer::state_names() const {
  std::vector<std::string> names;
  for (const auto& state : shares_.front().optimizer->state()) names.push_back(state.name);
  return names;
}

std::vector<FlatOptimizer::Piece> FlatOptimizer::state() const {
  std::vector<Piece> pieces;
  for (const Share& share : shares_)
    for (auto& [name, values] : share.optimizer->state())
      pieces.push_back({name, {share.range.begin, share.range.begin + std::ssize(values)}, values});
  return pieces;
}

std::vector<FlatOptimizer::WholeState> FlatOptimizer::collected() {
  if (partly_updated_)
    throw Error(
        "the last update has failed while workers exchanged parameters, so that they have those of "
        "two steps; continue from a checkpoint (--resume)");
  std::vector<WholeState> all;
  if (divided_) {
    for (const std::string& name : state_names()) {
      std::vector<float> values = gathered(name);
      all.push_back({name, values, std::move(values)});
    }
  } else {
    for (const Piece& piece : state()) all.push_back({piece.name, piece.values});
  }
  return all;
}

// Other workers than the first have one bucket at a time.
std::vector<float> FlatOptimizer::gathered(const std::string& name) {
  collective::Communicator& group = replica_.group();
  const bool is_first = group.rank() == 0;
  const auto& buckets = replica_.layout().buckets;
  std::vector<float> whole(is_first ? static_cast<size_t>(replica_.layout().bytes / kFloat) : 0);
  for (size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    const auto& [range, optimizer] = shares_[bucket];
    std::vector<float> sent(is_first ? 0 : static_cast<size_t>(buckets[bucket].count()));
    const int64_t first = buckets[bucket].begin / kFloat;
    float* const place = is_first ? whole.data() + first : sent.data();
    for (const auto& [own_name, values] : optimizer->state())
      if (own_name == name) std::ranges::copy(values, place + (range.begin - first));
    group.gather({reinterpret_cast<std::byte*>(place), buckets[bucket].count(), Type::f32}, 0);
  }
  return whole;
}

}  // namespace lockstep::parallel
