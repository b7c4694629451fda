// Words: a backward pass is *under way* from its first gradient until all buckets are reduced,
// which the autograd engine waits for before `backward()` returns. A worker that has *joined* has
// no more batches, and stands in for itself with zeros. Whatever is thrown on the way, by us or by
// a function of the user's, ends it all: see fail_stop.h.
#include "lockstep/ddp.h"

#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "parallel/fail_stop.h"
#include "parallel/flat_buffers.h"
#include "parallel/gradient_hooks.h"
#include "parallel/parameters.h"
#include "parallel/reducer.h"
#include "parallel/same_model.h"
#include "parallel/stragglers.h"
#include "parallel/tensor_buffer.h"

namespace lockstep {

using collective::Communicator;
using collective::Shards;

namespace {

// The autograd engine holds this with what it calls in the end. An engine that drops it without
// having called has met an error, which it does not tell.
class PassUnderWay {
 public:
  explicit PassUnderWay(std::shared_ptr<parallel::FailStop> fail_stop)
      : fail_stop_(std::move(fail_stop)) {}
  PassUnderWay(const PassUnderWay&) = delete;
  PassUnderWay& operator=(const PassUnderWay&) = delete;
  ~PassUnderWay() {
    if (ended_) return;
    fail_stop_->fail(std::make_exception_ptr(
        Error("a backward pass ended before all gradients had come, by an error that it threw "
              "then; other workers may have gone on: end this one, or begin anew with "
              "lockstep::init")));
  }

  void end() { ended_ = true; }

 private:
  const std::shared_ptr<parallel::FailStop> fail_stop_;
  bool ended_ = false;
};

}  // namespace

class GradientSync::State {
 public:
  State(torch::nn::Module& model, World world, DdpOptions options);

  void before_forward();
  void pause() { ++pauses_; }
  void go_on() { --pauses_; }
  void join(const std::function<void()>& loop);
  double clip_gradient_norm(double largest);
  StragglerReport stragglers();

 private:
  void take_hook();
  void make_reducer(const std::vector<size_t>& ready);
  void on_gradient(size_t parameter);
  void take_gradient(size_t parameter);
  void begin_backward();
  void finish_backward();
  void finish_buckets();
  void refuse_unused(const std::vector<size_t>& missing);
  std::vector<size_t> take_earlier(const std::vector<size_t>& missing);
  void give_views(const std::vector<size_t>& without);
  void learn_order();
  enum class Active { no, yes };
  int first_active(Active active);
  int64_t reduced(int64_t value, Operation operation);
  void sync_buffers(int root);
  void stand_in(int first_active);
  void take_final_model();

  // Constant after construction.
  torch::nn::Module& model_;
  World world_;
  Communicator& group_;
  const DdpOptions options_;
  const parallel::Parameters parameters_;
  const parallel::ParameterWatch watch_;
  parallel::FlatBuffers buffers_;
  std::optional<World> hook_world_;
  std::shared_ptr<parallel::FailStop> fail_stop_;

  std::unique_ptr<parallel::Reducer> reducer_;
  parallel::Stragglers stragglers_;
  int pauses_ = 0;  ///< scopes of no_sync
  bool under_way_ = false;
  bool joining_ = false;
  bool order_is_learned_ = false;
  std::vector<size_t> order_;  ///< in which gradients came in the first backward pass
  int64_t passes_ = 0;

  parallel::GradientHooks hooks_;  // last: they call into all of the above
};

GradientSync::State::State(torch::nn::Module& model, World world, DdpOptions options)
    : model_(model),
      world_(std::move(world)),
      group_(world_.communicator()),
      options_(std::move(options)),
      parameters_(
          (parallel::require_same_model(model, group_), parallel::trained_parameters(model))),
      watch_(model),
      buffers_(model, group_),
      hooks_(parameters_, [this](size_t parameter) { on_gradient(parameter); }) {
  if (parameters_.size() == 0) throw BadInput("the model has no parameter that is trained");
  take_hook();
  std::vector<World> worlds = {world_};
  if (options_.hook) worlds.push_back(hook_world_.emplace(world_.duplicate()));
  fail_stop_ = std::make_shared<parallel::FailStop>(std::move(worlds));
  parallel::broadcast_parameters(model_, group_, 0);
  buffers_.broadcast(0);
  make_reducer(parallel::last_first(parameters_.size()));
}

// A hook remembers buckets and what it left out of them: two may not share it.
void GradientSync::State::take_hook() {
  if (!options_.hook) return;
  if (options_.hook->taken_)
    throw BadInput(
        "DdpOptions::hook is in another DistributedDataParallel already; give each one of its own");
  options_.hook->taken_ = true;
}

void GradientSync::State::make_reducer(const std::vector<size_t>& ready) {
  auto layout = parallel::lay_out(parallel::gradient_sizes(parameters_), ready,
                                  {options_.first_bucket_bytes, options_.bucket_bytes});
  auto made = std::make_unique<parallel::Reducer>(
      parameters_, std::move(layout), Shards::even(group_.world_size(), group_.world_size()),
      group_);
  if (options_.hook) made->use_hook(options_.hook, *hook_world_);
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& gradient = parameters_.tensors[i].mutable_grad();
    if (!gradient.defined() || gradient.is_sparse()) continue;
    torch::Tensor view = made->gradient(i);
    view.copy_(gradient);
    gradient = view;
  }
  reducer_ = std::move(made);
}

void GradientSync::State::before_forward() {
  fail_stop_->run([&] {
    watch_.check();
    if (pauses_ > 0 || !model_.is_training()) return;
    sync_buffers(joining_ ? first_active(Active::yes) : 0);
  });
}

void GradientSync::State::on_gradient(size_t parameter) {
  fail_stop_->run([&] {
    if (pauses_ == 0) take_gradient(parameter);
  });
}

void GradientSync::State::take_gradient(size_t parameter) {
  if (!under_way_) begin_backward();
  reducer_->add(parameter);
  torch::Tensor& gradient = parameters_.tensors[parameter].mutable_grad();
  if (gradient.data_ptr() != reducer_->gradient(parameter).data_ptr())
    gradient = reducer_->gradient(parameter);
  if (!order_is_learned_) order_.push_back(parameter);
}

void GradientSync::State::begin_backward() {
  watch_.check();
  under_way_ = true;
  reducer_->begin_pass(0);
  const auto pass = std::make_shared<PassUnderWay>(fail_stop_);
  torch::autograd::Engine::get_default_engine().queue_callback([this, pass] {
    pass->end();
    fail_stop_->run([&] { finish_backward(); });
  });
}

void GradientSync::State::finish_backward() {
  const std::vector<size_t> missing = reducer_->end_pass();
  if (!missing.empty() && options_.unused == Unused::forbid) refuse_unused(missing);
  finish_buckets();
  under_way_ = false;
  ++passes_;
  if (options_.unused == Unused::find) give_views(take_earlier(missing));
  if (!order_is_learned_) learn_order();
}

void GradientSync::State::finish_buckets() {
  reducer_->finish();
  stragglers_.add(reducer_->seconds_waited());
}

void GradientSync::State::refuse_unused(const std::vector<size_t>& missing) {
  constexpr size_t kMostNames = 5;
  const size_t named = std::min(missing.size(), kMostNames);
  std::vector<std::string> names;
  for (size_t i = 0; i < named; ++i)
    names.push_back(fmt::format("'{}'", parameters_.names[missing[i]]));
  throw BadInput(
      "parameter{} {}{} got no gradient on rank {}: the loss does not depend on {}; "
      "DdpOptions::unused = Unused::find allows that",
      missing.size() == 1 ? "" : "s", fmt::join(names, ", "),
      missing.size() == named ? "" : fmt::format(" and {} more", missing.size() - named),
      world_.rank(), missing.size() == 1 ? "it" : "them");
}

// Of parameters that this pass did not reach, those that have no gradient from one before either.
std::vector<size_t> GradientSync::State::take_earlier(const std::vector<size_t>& missing) {
  std::vector<size_t> without;
  for (const size_t parameter : missing) {
    torch::Tensor& gradient = parameters_.tensors[parameter].mutable_grad();
    if (gradient.defined())
      gradient = reducer_->gradient(parameter);
    else
      without.push_back(parameter);
  }
  return without;
}

// A parameter that has no gradient here may have one elsewhere; if nowhere, it stays without.
void GradientSync::State::give_views(const std::vector<size_t>& without) {
  std::vector<int32_t> used(parameters_.size(), 1);
  for (const size_t parameter : without) used[parameter] = 0;
  group_.all_reduce(
      {reinterpret_cast<std::byte*>(used.data()), static_cast<int64_t>(used.size()), Type::i32},
      Operation::max);
  for (const size_t parameter : without)
    if (used[parameter] != 0)
      parameters_.tensors[parameter].mutable_grad() = reducer_->gradient(parameter);
}

// All take rank 0's order; what got no gradient there comes last.
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
  make_reducer({order.begin(), order.end()});
}

// The first rank that has not joined; the world's size if all have.
int GradientSync::State::first_active(Active active) {
  return static_cast<int>(
      reduced(active == Active::yes ? group_.rank() : group_.world_size(), Operation::min));
}

int64_t GradientSync::State::reduced(int64_t value, Operation operation) {
  group_.all_reduce({reinterpret_cast<std::byte*>(&value), 1, Type::i64}, operation);
  return value;
}

void GradientSync::State::sync_buffers(int root) {
  if (options_.buffers == Buffers::broadcast && group_.world_size() > 1) buffers_.broadcast(root);
}

double GradientSync::State::clip_gradient_norm(double largest) {
  torch::NoGradGuard no_grad;
  double squares = 0;
  for (const torch::Tensor& parameter : parameters_.tensors)
    if (parameter.grad().defined()) squares += std::pow(parameter.grad().norm().item<double>(), 2);
  const double norm = std::sqrt(squares);
  if (norm > largest)
    for (const torch::Tensor& parameter : parameters_.tensors)
      if (parameter.grad().defined()) parameter.grad().mul_(largest / norm);
  return norm;
}

StragglerReport GradientSync::State::stragglers() {
  StragglerReport report;
  fail_stop_->run([&] { report = stragglers_.report(group_); });
  return report;
}

void GradientSync::State::join(const std::function<void()>& loop) {
  fail_stop_->run([&] {
    joining_ = true;
    passes_ = 0;
    loop();
    for (int first = first_active(Active::no); first < group_.world_size();
         first = first_active(Active::no))
      stand_in(first);
    joining_ = false;
    take_final_model();
  });
}

// What the others do in a forward and a backward pass.
void GradientSync::State::stand_in(int first_active) {
  sync_buffers(first_active);
  reducer_->begin_pass(0);
  const std::vector<size_t> missing = reducer_->end_pass(parallel::Reducer::Unreached::zeros);
  finish_buckets();
  if (options_.unused == Unused::find) give_views(missing);
  if (!order_is_learned_) learn_order();
}

void GradientSync::State::take_final_model() {
  const int64_t most = reduced(passes_, Operation::max);
  const auto root = static_cast<int>(
      reduced(passes_ == most ? group_.rank() : group_.world_size(), Operation::min));
  parallel::broadcast_parameters(model_, group_, root);
  buffers_.broadcast(root);
}

GradientSync::GradientSync(torch::nn::Module& model, World world, DdpOptions options)
    : state_(std::make_unique<State>(model, std::move(world), std::move(options))) {}

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

void GradientSync::join(const std::function<void()>& loop) {
  state_->join(loop);
}

double GradientSync::clip_gradient_norm(double largest) {
  return state_->clip_gradient_norm(largest);
}

StragglerReport GradientSync::stragglers() {
  return state_->stragglers();
}

}  // namespace lockstep
