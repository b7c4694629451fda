// Words: a backward pass is *running* from its first gradient until all buckets are reduced; the
// autograd engine waits for that before `backward()` returns. A worker that has *joined* has no
// more batches, and takes part in collectives with zeros. Any exception in between, from here or
// from the user's code, stops everything: see fail_stop.h.
#include "lockstep/ddp.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>
#include <utility>

#include "base/agreement.h"
#include "device/random.h"
#include "lockstep/sync_batch_norm.h"
#include "parallel/fail_stop.h"
#include "parallel/replica.h"
#include "parallel/share_optimizer.h"
#include "parallel/world_state.h"

namespace lockstep {

using collective::Communicator;
using collective::Shards;

namespace {

template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(
      fmt::format("lockstep: {}\n", fmt::format(format, std::forward<Args>(args)...)).c_str(),
      stderr);
}

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

}  // namespace

class GradientSync::State {
 public:
  State(torch::nn::Module& model, const World& world, const DdpOptions& options);

  void before_forward();
  void pause();
  void go_on() { --pauses_; }
  bool step_complete() const { return pass_ == 0; }
  void join(const std::function<void()>& loop, const Optimizers& optimizers);
  double clip_gradient_norm(double largest) {
    if (pass_ != 0)
      throw BadInput(
          "clip_gradient_norm in the middle of a step: {} of this worker's {} shards are computed; "
          "clip once step_complete() is true",
          pass_, replica_.passes());
    return replica_.clip_gradient_norm(largest);
  }
  StragglerReport stragglers();

 private:
  bool has_shards() const { return options_.shards > 0; }
  void begin_pass();
  void refuse_other_orders();
  void warn_before_the_first_pass();
  void on_gradient(size_t parameter);
  void begin_backward();
  void finish_backward();
  void finish_step(const std::vector<size_t>& missing);
  void refuse_unused(const std::vector<size_t>& missing);
  std::vector<size_t> take_earlier(const std::vector<size_t>& missing);
  void give_views(const std::vector<size_t>& without);
  void learn_order();
  enum class Active { no, yes };
  int first_active(Active active);
  int64_t reduced(int64_t value, Operation operation);
  void sync_buffers(int root);
  void stand_in_for_the_rest();
  void stand_in(int first_active);
  void take_final_model(const Optimizers& optimizers);

  // Constant after construction.
  torch::nn::Module& model_;
  World world_;
  const DdpOptions options_;
  parallel::Replica replica_;
  Communicator& group_;
  const parallel::Parameters& parameters_;
  std::shared_ptr<parallel::FailStop> fail_stop_;

  int pauses_ = 0;  ///< number of open no_sync scopes
  bool under_way_ = false;
  bool joining_ = false;
  /// Whether this worker has had a forward pass in training since buffers were synchronised. They
  /// may also have been changed before the first one.
  bool buffers_may_differ_ = true;
  bool order_is_learned_ = false;
  bool warned_ = false;        ///< before the first pass
  std::vector<size_t> order_;  ///< of gradients in the first backward pass
  int64_t passes_ = 0;         ///< backward passes since the start of `join`

  // With shards.
  int pass_ = 0;             ///< number of finished passes of the step
  bool pass_begun_ = false;  ///< by a forward pass
  int64_t steps_ = 0;
};

namespace {

void require_same_options(const DdpOptions& options, Communicator& group) {
  const auto text = [](auto value) { return fmt::format("{}", static_cast<int64_t>(value)); };
  agree({{"DdpOptions::shards", text(options.shards)},
         {"DdpOptions::seed", fmt::format("{}", options.seed)},
         {"DdpOptions::first_bucket_bytes", text(options.first_bucket_bytes)},
         {"DdpOptions::bucket_bytes", text(options.bucket_bytes)},
         {"DdpOptions::unused", text(options.unused)},
         {"DdpOptions::buffers", text(options.buffers)},
         {"DdpOptions::compress", text(options.compress)},
         {"whether there is a DdpOptions::hook", options.hook ? "yes" : "no"}},
        [&](const std::string& facts) { return group.gather_texts(facts); });
}

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

// The name of a SyncBatchNorm of the model: "" if it is the model itself.
std::optional<std::string> sync_batch_norm_of(const torch::nn::Module& model) {
  for (const auto& item : model.named_modules())
    if (item.value()->as<nn::SyncBatchNormImpl>() != nullptr) return item.key();
  return std::nullopt;
}

// It averages over the workers that compute at the same time, so its result depends on their
// number.
void refuse_sync_batch_norm(const torch::nn::Module& model) {
  if (const auto name = sync_batch_norm_of(model))
    throw BadInput(
        "DdpOptions::shards with SyncBatchNorm '{}': its statistics would depend on the number "
        "of workers; use BatchNorm, whose statistics are per shard",
        *name);
}

}  // namespace

GradientSync::State::State(torch::nn::Module& model, const World& world, const DdpOptions& options)
    : model_(model),
      world_(world),
      options_((require_same_options(options, world_.communicator()), options)),
      replica_(model, world, replica_options(options, world),
               [this](size_t parameter) { on_gradient(parameter); }),
      group_(replica_.group()),
      parameters_(replica_.parameters()),
      fail_stop_(std::make_shared<parallel::FailStop>(replica_.worlds())) {
  if (has_shards()) {
    refuse_sync_batch_norm(model);
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

void GradientSync::State::refuse_other_orders() {
  for (const int64_t bytes : {int64_t{1}, options_.first_bucket_bytes, options_.bucket_bytes})
    if (const collective::Algorithm algorithm = group_.algorithm_for(bytes);
        !algorithm.is_canonical())
      throw BadInput(
          "DdpOptions::shards with the all-reduce algorithm {}: the order in which it adds depends "
          "on the number of workers, and so would the model; choose another one "
          "(WorldOptions::algorithm, --lockstep-algorithm)",
          algorithm.name());
}

// What makes the model depend on the number of workers, and cannot be refused.
void GradientSync::State::warn_before_the_first_pass() {
  if (world_.rank() != 0) return;
  const std::set<int64_t>& theirs = world_.state_->sampler_shards;
  if (!theirs.empty() && !theirs.contains(options_.shards))
    warn(
        "DdpOptions::shards is {} and SamplerOptions::shards is {}: the model will depend on the "
        "number of workers; set both to the same number",
        options_.shards, fmt::join(theirs, ", "));
  if (const int threads = at::get_num_threads(); has_shards() && threads != 1)
    warn(
        "DdpOptions::shards: this worker computes with {} threads, and another number adds in "
        "another order; call torch::set_num_threads(1), so that the model does not depend on the "
        "number of cores per worker",
        threads);
}

// The first forward pass of a shard. Its random numbers are seeded by the step and the shard.
void GradientSync::State::begin_pass() {
  if (pass_begun_) return;
  pass_begun_ = true;
  if (pass_ == 0)
    for (const torch::Tensor& parameter : parameters_.tensors) parameter.mutable_grad().reset();
  replica_.begin_pass(pass_);
  torch::manual_seed(
      RandomStream(Purpose::forward, options_.seed, steps_, replica_.shard(pass_)).next());
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
  if (!has_shards()) replica_.begin_pass(0);
  const auto pass = std::make_shared<PassUnderWay>(fail_stop_);
  torch::autograd::Engine::get_default_engine().queue_callback([this, pass] {
    pass->end();
    fail_stop_->run([&] { finish_backward(); });
  });
}

void GradientSync::State::finish_backward() {
  using parallel::Reducer;
  const std::vector<size_t> missing =
      replica_.end_pass(parallel::ShardStatistics::Shard::has_samples,
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
  replica_.finish(replica_.shards());
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

void GradientSync::State::refuse_unused(const std::vector<size_t>& missing) {
  constexpr size_t kMostNames = 5;
  const size_t named = std::min(missing.size(), kMostNames);
  std::vector<std::string> names;
  for (size_t i = 0; i < named; ++i)
    names.push_back(fmt::format("'{}'", parameters_.names[missing[i]]));
  throw BadInput(
      "parameter{} {}{} got no gradient on rank {}: the loss does not depend on {}; "
      "if that is intended, set DdpOptions::unused = Unused::find",
      missing.size() == 1 ? "" : "s", fmt::join(names, ", "),
      missing.size() == named ? "" : fmt::format(" and {} more", missing.size() - named),
      world_.rank(), missing.size() == 1 ? "it" : "them");
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

// The first rank that has not joined; the world size if all have.
int GradientSync::State::first_active(Active active) {
  return static_cast<int>(
      reduced(active == Active::yes ? group_.rank() : group_.world_size(), Operation::min));
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

void GradientSync::State::join(const std::function<void()>& loop, const Optimizers& optimizers) {
  if (has_shards())
    throw BadInput(
        "join with DdpOptions::shards: every step has all its shards, so no worker can have fewer "
        "passes");
  if (const auto name = sync_batch_norm_of(model_))
    throw BadInput(
        "join with SyncBatchNorm '{}': it needs a batch of every worker in every pass; give all "
        "workers equally many batches (Uneven::pad or Uneven::drop)",
        *name);
  fail_stop_->run([&] {
    joining_ = true;
    passes_ = 0;
    loop();
    stand_in_for_the_rest();
    joining_ = false;
    take_final_model(optimizers);
  });
}

void GradientSync::State::stand_in_for_the_rest() {
  try {
    for (int first = first_active(Active::no); first < group_.world_size();
         first = first_active(Active::no))
      stand_in(first);
  } catch (const Mismatch& mismatch) {
    throw Mismatch(
        "{}; rank {} has ended its loop in DistributedDataParallel::join and takes part in the "
        "other workers' forward and backward passes only: call no other collective in the loop",
        mismatch.what(), world_.rank());
  }
}

// Takes part in the collectives of the other workers' forward and backward passes.
void GradientSync::State::stand_in(int first_active) {
  sync_buffers(first_active);
  replica_.begin_pass(0);
  const std::vector<size_t> missing =
      replica_.end_pass(parallel::ShardStatistics::Shard::has_samples);
  replica_.finish(replica_.shards());
  if (options_.unused == Unused::find) give_views(missing);
  if (!order_is_learned_) learn_order();
}

// Workers that had fewer passes have updated their optimizers less often.
void GradientSync::State::take_final_model(const Optimizers& optimizers) {
  const int64_t most = reduced(passes_, Operation::max);
  const auto root = static_cast<int>(
      reduced(passes_ == most ? group_.rank() : group_.world_size(), Operation::min));
  replica_.share_model(root);
  for (torch::optim::Optimizer* const optimizer : optimizers)
    parallel::share_optimizer(*optimizer, root, group_);
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
