#include "parallel/reducer.h"

#include <ATen/ATen.h>

#include <cstring>
#include <utility>

#include "collective/fold/fold.h"
#include "lockstep/error.h"
#include "parallel/fail_stop.h"
#include "parallel/tensor_buffer.h"

namespace lockstep::parallel {

using collective::Buffer;
using collective::Cargo;

std::vector<GradientSize> gradient_sizes(const Parameters& parameters) {
  std::vector<GradientSize> sizes;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& parameter = parameters.tensors[i];
    const std::string what = fmt::format("parameter '{}'", parameters.names[i]);
    if (!parameter.device().is_cpu())
      throw BadInput("{} is on {}: expected one on the CPU", what, parameter.device().str());
    sizes.push_back({parameter.numel(), element_type(parameter.scalar_type(), what)});
  }
  return sizes;
}

Reducer::Reducer(Parameters parameters, GradientLayout layout, const collective::Shards& shards,
                 collective::Communicator& group)
    : parameters_(std::move(parameters)),
      layout_(std::move(layout)),
      shards_(shards),
      schedule_(schedule_of(shards_, group.rank())),
      group_(group),
      memory_(group.allocate(static_cast<size_t>(layout_.bytes * schedule_.slots))),
      views_(static_cast<size_t>(schedule_.slots)),
      progress_(layout_.buckets.size()) {
  for (int slot = 0; slot < schedule_.slots; ++slot)
    for (size_t i = 0; i < parameters_.size(); ++i)
      views_[static_cast<size_t>(slot)].push_back(view_of(i, slot));
}

void Reducer::use_hook(std::shared_ptr<GradientHook> hook, World world) {
  if (schedule_.passes.size() != 1)
    throw BadInput("a gradient hook needs one shard a worker, and this one has {}",
                   schedule_.passes.size());
  hook_ = std::move(hook);
  hook_world_ = std::move(world);
}

// In the parameter's own order of memory, so that optimizers walk both alike.
torch::Tensor Reducer::view_of(size_t parameter, int slot) const {
  const torch::Tensor& like = parameters_.tensors[parameter];
  std::byte* const data =
      memory_.data.get() + slot * layout_.bytes + layout_.places[parameter].begin;
  const auto keep = [held = memory_](void*) {};
  const auto options = like.options().requires_grad(false);
  if (like.is_non_overlapping_and_dense())
    return torch::from_blob(data, like.sizes(), like.strides(), keep, options);
  return torch::from_blob(data, like.sizes(), keep, options);
}

std::byte* Reducer::place(size_t bucket, int slot) const {
  return memory_.data.get() + slot * layout_.bytes + layout_.buckets[bucket].begin;
}

void Reducer::begin_pass(int pass) {
  pass_ = pass;
  added_.assign(parameters_.size(), false);
  for (Progress& progress : progress_) progress = {};
  next_bucket_ = 0;
}

void Reducer::add(size_t parameter) {
  put(parameter);
  added_[parameter] = true;
  count(parameter);
}

const torch::Tensor& Reducer::view_in_pass(size_t parameter) const {
  const int slot = schedule_.passes[static_cast<size_t>(pass_)].slot;
  return views_[static_cast<size_t>(slot)][parameter];
}

// A gradient into its place.
void Reducer::put(size_t parameter) {
  const torch::Tensor& gradient = parameters_.tensors[parameter].grad();
  if (gradient.is_sparse())
    throw BadInput(
        "parameter '{}' has a sparse gradient, which no bucket can hold; make its layer's "
        "gradients dense, as by EmbeddingOptions::sparse(false)",
        parameters_.names[parameter]);
  torch::Tensor view = view_in_pass(parameter);
  if (gradient.data_ptr() == view.data_ptr()) return;
  torch::NoGradGuard no_grad;
  view.copy_(gradient);
}

void Reducer::count(size_t parameter) {
  const size_t bucket = layout_.places[parameter].bucket;
  if (++progress_[bucket].added == layout_.buckets[bucket].parameters.size()) fill(bucket);
}

std::vector<size_t> Reducer::end_pass(Unreached unreached) {
  std::vector<size_t> missing;
  for (size_t i = 0; i < added_.size(); ++i) {
    if (added_[i]) continue;
    missing.push_back(i);
    if (unreached == Unreached::what_it_has && parameters_.tensors[i].grad().defined())
      put(i);
    else
      std::memset(view_in_pass(i).data_ptr(), 0, static_cast<size_t>(layout_.places[i].bytes));
    count(i);
  }
  return missing;
}

void Reducer::fill(size_t bucket) {
  const GradientLayout::Bucket& about = layout_.buckets[bucket];
  const auto add = collective::combiner(about.type, Operation::sum);
  for (const auto& [into, from] : schedule_.passes[static_cast<size_t>(pass_)].folds)
    add(place(bucket, into), place(bucket, from), static_cast<size_t>(about.end - about.begin));
  if (pass_ + 1 == passes()) start_full_buckets();
}

void Reducer::start_full_buckets() {
  for (; next_bucket_ < progress_.size(); ++next_bucket_) {
    Progress& progress = progress_[next_bucket_];
    if (progress.added < layout_.buckets[next_bucket_].parameters.size()) return;
    progress.pending = start(next_bucket_);
  }
}

collective::Pending Reducer::start(size_t bucket) {
  const GradientLayout::Bucket& about = layout_.buckets[bucket];
  if (shards_.count() == 1) return {};  // its own mean
  if (!hook_) {
    std::vector<Buffer> terms;
    for (size_t slot = 0; slot < shards_.terms_of(group_.rank()).size(); ++slot)
      terms.push_back({place(bucket, static_cast<int>(slot)), about.count(), about.type});
    // A sum of halves overflows where their mean does not.
    const bool divide_first = about.type == Type::f16;
    if (divide_first)
      for (const Buffer& term : terms)
        collective::divider(term.type)(term.data, term.bytes(), shards_.count());
    return group_.all_reduce_async(terms, shards_, divide_first ? Operation::sum : Operation::mean,
                                   {Cargo::Kind::gradients, static_cast<int>(bucket)},
                                   memory_.data);
  }
  GradientBucket given{.index = bucket};
  given.values = torch::from_blob(place(bucket, 0), {about.count()}, scalar_type(about.type));
  for (const size_t parameter : about.parameters) given.gradients.push_back(views_[0][parameter]);
  given.parameters = about.parameters;
  return hook_lane_.start([this, given]() mutable {
    torch::NoGradGuard no_grad;
    try {
      hook_->reduce(given, *hook_world_);
    } catch (...) {  // the others' hooks may be waiting for this one
      hook_world_->abort(text_of(std::current_exception()));
      throw;
    }
  });
}

void Reducer::finish() {
  seconds_waited_ = 0;
  for (const Progress& progress : progress_) {
    progress.pending.wait();
    seconds_waited_ += progress.pending.seconds();
  }
}

}  // namespace lockstep::parallel
