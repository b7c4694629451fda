#include "parallel/reducer.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>

#include <utility>

#include "collective/fold/fold.h"
#include "lockstep/error.h"
#include "parallel/device_streams.h"
#include "parallel/fail_stop.h"
#include "parallel/tensor_buffer.h"

namespace lockstep::parallel {

using collective::Buffer;
using collective::Cargo;

namespace {

std::optional<Type> narrow_type(Compress compress) {
  switch (compress) {
    case Compress::f16:
      return Type::f16;
    case Compress::bf16:
      return Type::bf16;
    case Compress::none:
      break;
  }
  return std::nullopt;
}

GradientLayout lay_out(std::vector<GradientSize> sizes, const ReducerOptions& options,
                       std::optional<Type> type) {
  if (type)
    for (GradientSize& size : sizes) size.type = *type;
  return lay_out(sizes, options.ready, options.buckets);
}

}  // namespace

std::vector<GradientSize> gradient_sizes(const Parameters& parameters) {
  std::vector<GradientSize> sizes;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& parameter = parameters.tensors[i];
    const std::string what = fmt::format("parameter '{}'", parameters.names[i]);
    if (const auto device = parameters.tensors[0].device(); parameter.device() != device)
      throw BadInput("{} is on {}, but parameter '{}' is on {}: a model must be on one device",
                     what, device_name(parameter.device()), parameters.names[0],
                     device_name(device));
    sizes.push_back({parameter.numel(), element_type(parameter.scalar_type(), what)});
  }
  return sizes;
}

Reducer::Reducer(Parameters parameters, const ReducerOptions& options,
                 const collective::Shards& shards, collective::Communicator& group)
    : parameters_(std::move(parameters)),
      narrow_type_(narrow_type(options.compress)),
      needed_(options.needed),
      layout_(lay_out(gradient_sizes(parameters_), options, std::nullopt)),
      slot_layout_(lay_out(gradient_sizes(parameters_), options, narrow_type_)),
      shards_(shards),
      schedule_(schedule_of(shards_, group.rank(), options.pieces)),
      group_(group),
      memory_(parameters_.tensors[0].device(), MemoryUse::gradients, slot_layout_.bytes,
              schedule_.slots, group),
      wide_(narrow()
                ? torch::zeros(
                      {layout_.bytes},
                      parameters_.tensors[0].options().dtype(torch::kUInt8).requires_grad(false))
                : torch::Tensor()),
      slots_(static_cast<size_t>(schedule_.slots)),
      buckets_(slot_layout_.buckets.size()) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const torch::Tensor& like = parameters_.tensors[i];
    const auto type = narrow() ? scalar_type(*narrow_type_) : like.scalar_type();
    for (int slot = 0; slot < schedule_.slots; ++slot)
      slots_[static_cast<size_t>(slot)].push_back(
          memory_.view(slot, slot_layout_.places[i].begin, like, type));
    results_.push_back(narrow() ? view_in(wide_, layout_.places[i].begin, like, like.scalar_type())
                                : slots_[0][i]);
  }
}

torch::Tensor Reducer::all_gradients() const {
  const auto type = scalar_type(layout_.buckets[0].type);
  return narrow() ? wide_.view(type) : memory_.vector({.end = layout_.bytes}, type);
}

void Reducer::use_hook(std::shared_ptr<GradientHook> hook, World world) {
  const auto rank = static_cast<size_t>(group_.rank());
  if (const int64_t own = shards_.bounds()[rank + 1] - shards_.bounds()[rank]; own != 1)
    throw BadInput("a gradient hook needs one shard per worker, but this worker has {}", own);
  hook_ = std::move(hook);
  hook_world_ = std::move(world);
}

ExchangeMemory::Part Reducer::part(size_t bucket, int slot) const {
  const GradientLayout::Bucket& about = slot_layout_.buckets[bucket];
  return {slot, about.begin, about.end};
}

// What this worker has of the bucket's result.
ExchangeMemory::Part Reducer::result(size_t bucket) const {
  const ExchangeMemory::Part all = part(bucket, 0);
  if (!scatters()) return all;
  const GradientLayout::Bucket& about = slot_layout_.buckets[bucket];
  const Range own = slice(about.count(), group_.world_size(), group_.rank());
  const auto size = static_cast<int64_t>(bytes_of(about.type));
  return {0, all.begin + own.begin * size, all.begin + own.end * size};
}

void Reducer::begin_pass(int pass) {
  pass_ = pass;
  added_.assign(parameters_.size(), false);
  for (BucketState& bucket : buckets_) bucket = {};
  next_bucket_ = 0;
}

void Reducer::add(size_t parameter) {
  if (added_[parameter])
    throw BadInput(
        "parameter '{}' got a second gradient in one backward pass, after its first one was "
        "reduced: is there a backward pass inside another one?",
        parameters_.names[parameter]);
  put(parameter);
  added_[parameter] = true;
  count(parameter);
}

const torch::Tensor& Reducer::view_in_pass(size_t parameter) const {
  return slots_[static_cast<size_t>(pass().slot)][parameter];
}

// Copies a gradient into its place.
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
  // Divides first: a sum of f16 may overflow where the mean does not.
  const torch::Tensor given = narrow() ? gradient.div(shards_.count()) : gradient;
  if (pass().adds)
    view.add_(given);
  else
    view.copy_(given);
}

void Reducer::count(size_t parameter) {
  const size_t bucket = slot_layout_.places[parameter].bucket;
  if (++buckets_[bucket].added == slot_layout_.buckets[bucket].parameters.size()) fill(bucket);
}

std::vector<size_t> Reducer::end_pass(Unreached unreached) {
  std::vector<size_t> missing;
  for (size_t i = 0; i < added_.size(); ++i) {
    if (added_[i]) continue;
    missing.push_back(i);
    if (unreached == Unreached::what_it_has && parameters_.tensors[i].grad().defined())
      put(i);
    else if (!pass().adds)
      torch::Tensor(view_in_pass(i)).zero_();
    count(i);
  }
  return missing;
}

void Reducer::fill(size_t bucket) {
  torch::NoGradGuard no_grad;
  for (const auto& [into, from] : pass().folds)
    memory_.add(part(bucket, into), part(bucket, from), slot_layout_.buckets[bucket].type);
  if (pass_ + 1 == passes()) start_full_buckets();
}

void Reducer::start_full_buckets() {
  for (; next_bucket_ < buckets_.size(); ++next_bucket_) {
    BucketState& bucket = buckets_[next_bucket_];
    if (bucket.added < slot_layout_.buckets[next_bucket_].parameters.size()) return;
    bucket.pending = start(next_bucket_);
  }
}

collective::Pending Reducer::start(size_t bucket) {
  if (hook_) return start_hook(bucket);
  if (shards_.count() == 1) return {};  // the mean of one shard is the shard itself
  const GradientLayout::Bucket& about = slot_layout_.buckets[bucket];
  std::vector<ExchangeMemory::Part> parts;
  for (size_t slot = 0; slot < shards_.terms_of(group_.rank()).size(); ++slot)
    parts.push_back(part(bucket, static_cast<int>(slot)));
  // Divides first, because a sum of f16 may overflow where the mean does not. Compressed ones have
  // been divided already.
  const bool divide_first = about.type == Type::f16 && !narrow();
  if (divide_first)
    for (const ExchangeMemory::Part& each : parts)
      memory_.vector(each, scalar_type(about.type)).div_(shards_.count());
  ExchangeMemory::Staged staged = memory_.stage(parts);
  std::vector<Buffer> terms;
  for (std::byte* const data : staged.data)
    terms.push_back({data, about.count(), about.type, staged.place});
  const Operation operation = divide_first || narrow() ? Operation::sum : Operation::mean;
  const Cargo cargo{Cargo::Kind::gradients, static_cast<int>(bucket)};
  return scatters() ? group_.reduce_scatter_async(terms, shards_, operation, cargo, memory_.owner(),
                                                  std::move(staged.wait))
                    : group_.all_reduce_async(terms, shards_, operation, cargo, memory_.owner(),
                                              std::move(staged.wait));
}

collective::Pending Reducer::start_hook(size_t bucket) {
  const GradientLayout::Bucket& about = slot_layout_.buckets[bucket];
  GradientBucket given{.index = bucket};
  given.values = memory_.vector(part(bucket, 0), scalar_type(about.type));
  for (const size_t parameter : about.parameters) {
    given.gradients.push_back(slots_[0][parameter]);
    given.names.push_back(parameters_.names[parameter]);
  }
  given.parameters = about.parameters;
  const c10::Device device = given.values.device();
  torch::optional<c10::Stream> stream;
  if (!device.is_cpu()) stream = current_stream(device);
  return hook_lane_.start([this, given, stream]() mutable {
    const c10::OptionalStreamGuard on_stream(stream);
    torch::NoGradGuard no_grad;
    try {
      hook_->reduce(given, *hook_world_);
    } catch (...) {  // hooks of other workers may be waiting for this one
      hook_world_->abort(text_of(std::current_exception()));
      throw;
    }
  });
}

void Reducer::finish() {
  seconds_waited_ = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const collective::Pending& pending = buckets_[i].pending;
    pending.wait();
    seconds_waited_ += pending.seconds();
    if (!hook_ && shards_.count() > 1) memory_.take_back(result(i));
  }
  if (narrow()) widen();
}

void Reducer::widen() {
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < results_.size(); ++i) results_[i].copy_(slots_[0][i]);
}

}  // namespace lockstep::parallel
