#include "lockstep/ddp.h"

#include <torch/csrc/autograd/engine.h>

#include <utility>

#include "device/random.h"
#include "parallel/gradient_sync.h"

namespace lockstep {

using collective::Shards;

namespace {

// The autograd engine owns this together with its final callback. If the engine destroys it without
// having called it, the backward pass threw an exception.
class PassUnderWay {
 public:
  explicit PassUnderWay(std::shared_ptr<parallel::FailStop> fail_stop)
      : fail_stop_(std::move(fail_stop)) {}
  PassUnderWay(const PassUnderWay&) = delete;
  PassUnderWay& operator=(const PassUnderWay&) = delete;
  ~PassUnderWay() {
    if (ended_) return;
    fail_stop_->fail(std::make_exception_ptr(Error(
        "a backward pass threw an exception before all gradients were computed; other workers "
        "may have continued, so this DistributedDataParallel cannot be used any more: end the "
        "process, or start again with lockstep::init")));
  }

  void end() { ended_ = true; }

 private:
  const std::shared_ptr<parallel::FailStop> fail_stop_;
  bool ended_ = false;
};

Shards shards_for(const DdpOptions& options, const World& world) {
  if (options.shards == 0) return Shards::even(world.size(), world.size());
  if (options.shards < world.size() || options.shards > 65536)
    throw BadInput(
        "DdpOptions::shards is {}: expected at least one for each of {} workers, and at "
        "most 65536",
        options.shards, world.size());
  return Shards::even(options.shards, world.size());
}

parallel::ReplicaOptions replica_options(const DdpOptions& options, const World& world) {
  using BufferMode = parallel::ReplicaOptions::BufferMode;
  return {.shards = shards_for(options, world),
          .buckets = {options.first_bucket_bytes, options.bucket_bytes},
          .compress = options.compress,
          .hook = options.hook,
          .buffers = options.shards > 0 ? BufferMode::mean_over_shards : BufferMode::left_alone};
}

}  // namespace

GradientSync::State::State(torch::nn::Module& model, const World& world, const DdpOptions& options)
    : model_(model),
      world_(world),
      options_((parallel::require_same_options(options, world_.communicator()), options)),
      replica_(model, world, replica_options(options, world),
               [this](size_t parameter) { on_gradient(parameter); }),
      group_(replica_.group()),
      parameters_(replica_.parameters()),
      fail_stop_(std::make_shared<parallel::FailStop>(replica_.worlds())) {
  if (has_shards()) {
    refuse_sync_batch_norm();
    refuse_other_orders();
  }
  replica_.share_model(0);
}

void GradientSync::State::pause() {
  if (has_shards())
    throw BadInput(
        "no_sync with DdpOptions::shards: a step accumulates its shards already; to accumulate "
        "more, use more shards");
  ++pauses_;
}

void GradientSync::State::before_forward() {
  fail_stop_->run([&] {
    replica_.check_model();
    replica_.notice_loaded_weights();
    const bool training = model_.is_training();
    if (training && !std::exchange(warned_, true)) warn_before_the_first_pass();
    if (has_shards()) {
      if (training) begin_pass();
      return;
    }
    if (pauses_ == 0 && joining_ && training)
      sync_buffers(first_active(Active::yes));
    else if (pauses_ == 0 && !joining_ && buffers_may_differ_)
      sync_buffers(0);
    buffers_may_differ_ = buffers_may_differ_ || training;
  });
}

// The first forward pass of a shard. Its random numbers are seeded by the step and the shard.
void GradientSync::State::begin_pass() {
  if (pass_begun_) return;
  pass_begun_ = true;
  if (pass_ == 0)
    for (const torch::Tensor& parameter : parameters_.tensors) parameter.mutable_grad().reset();
  replica_.begin_forward(pass_, parallel::ShardStatistics::Shard::has_samples);
  torch::manual_seed(
      RandomStream(Purpose::forward, options_.seed, steps_, replica_.piece(pass_)).next());
}

void GradientSync::State::on_gradient(size_t parameter) {
  using Gradient = parallel::Replica::Gradient;
  fail_stop_->run([&] {
    if (pauses_ > 0) return;
    if (!under_way_) begin_backward();
    replica_.take(parameter, replica_.passes() > 1 ? Gradient::dropped : Gradient::view);
    if (!order_is_learned_ && pass_ == 0) order_.push_back(parameter);
  });
}

void GradientSync::State::begin_backward() {
  replica_.check_model();
  if (has_shards() && !pass_begun_)
    throw BadInput(
        "a backward pass without DistributedDataParallel::forward in training mode before it: with "
        "DdpOptions::shards each shard needs both");
  under_way_ = true;
  replica_.begin_backward(pass_);
  const auto pass = std::make_shared<PassUnderWay>(fail_stop_);
  torch::autograd::Engine::get_default_engine().queue_callback([this, pass] {
    pass->end();
    fail_stop_->run([&] { finish_backward(); });
  });
}

void GradientSync::State::finish_backward() {
  using parallel::Reducer;
  const std::vector<size_t> missing = replica_.end_backward(
      has_shards() ? Reducer::Unreached::zeros : Reducer::Unreached::what_it_has);
  if (!missing.empty() && options_.unused == Unused::forbid) refuse_unused(missing);
  under_way_ = false;
  pass_begun_ = false;
  ++passes_;
  if (++pass_ < replica_.passes()) return;
  pass_ = 0;
  finish_step(missing);
}

void GradientSync::State::finish_step(const std::vector<size_t>& missing) {
  replica_.finish(replica_.pieces());
  ++steps_;
  if (has_shards())
    for (size_t i = 0; i < parameters_.size(); ++i)
      parameters_.tensors[i].mutable_grad() = replica_.gradient(i);
  else if (options_.unused == Unused::find)
    give_views(take_earlier(missing));
  // Now, and not only before the next forward pass, since that may be one in evaluation, of which
  // workers may have different numbers.
  if (!has_shards() && !joining_) sync_buffers(0);
  if (!order_is_learned_) learn_order();
}

// Parameters that neither this pass nor an earlier one has reached.
std::vector<size_t> GradientSync::State::take_earlier(const std::vector<size_t>& missing) {
  std::vector<size_t> without;
  for (const size_t parameter : missing) {
    torch::Tensor& gradient = parameters_.tensors[parameter].mutable_grad();
    if (gradient.defined())
      gradient = replica_.gradient(parameter);
    else
      without.push_back(parameter);
  }
  return without;
}

// A parameter without a gradient on this worker may have one on another; without one on any worker,
// it stays undefined.
void GradientSync::State::give_views(const std::vector<size_t>& without) {
  std::vector<int32_t> used(parameters_.size(), 1);
  for (const size_t parameter : without) used[parameter] = 0;
  group_.all_reduce(
      {reinterpret_cast<std::byte*>(used.data()), static_cast<int64_t>(used.size()), Type::i32},
      Operation::max);
  for (const size_t parameter : without)
    if (used[parameter] != 0)
      parameters_.tensors[parameter].mutable_grad() = replica_.gradient(parameter);
}

// All workers use rank 0's order; parameters without a gradient on rank 0 come last.
void GradientSync::State::learn_order() {
  order_is_learned_ = true;
  std::vector<bool> seen(parameters_.size(), false);
  for (const size_t parameter : order_) seen[parameter] = true;
  for (const size_t parameter : parallel::last_first(parameters_.size()))
    if (!seen[parameter]) order_.push_back(parameter);
  std::vector<int64_t> order(order_.begin(), order_.end());
  group_.broadcast(
      {reinterpret_cast<std::byte*>(order.data()), static_cast<int64_t>(order.size()), Type::i64},
      0);
  replica_.order_buckets({order.begin(), order.end()});
}

int64_t GradientSync::State::reduced(int64_t value, Operation operation) {
  group_.all_reduce({reinterpret_cast<std::byte*>(&value), 1, Type::i64}, operation);
  return value;
}

void GradientSync::State::sync_buffers(int root) {
  buffers_may_differ_ = false;
  if (options_.buffers == Buffers::broadcast) replica_.share_buffers(root);
}

StragglerReport GradientSync::State::stragglers() {
  StragglerReport report;
  fail_stop_->run([&] { report = replica_.stragglers(); });
  return report;
}

GradientSync::GradientSync(torch::nn::Module& model, World world, DdpOptions options)
    : state_(std::make_unique<State>(model, world, options)) {}

GradientSync::~GradientSync() = default;

void GradientSync::before_forward() {
  state_->before_forward();
}

void GradientSync::pause() {
  state_->pause();
}

void GradientSync::go_on() {
  state_->go_on();
}

bool GradientSync::step_complete() const {
  return state_->step_complete();
}

void GradientSync::join(const std::function<void()>& loop, const Optimizers& optimizers) {
  state_->join(loop, optimizers);
}

double GradientSync::clip_gradient_norm(double largest) {
  return state_->clip_gradient_norm(largest);
}

StragglerReport GradientSync::stragglers() {
  return state_->stragglers();
}

}  // namespace lockstep
