// What DistributedDataParallel refuses, or warns of, because workers would train different models.
#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "base/agreement.h"
#include "lockstep/sync_batch_norm.h"
#include "parallel/gradient_sync.h"
#include "parallel/world_state.h"

namespace lockstep {
namespace {

template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(
      fmt::format("lockstep: {}\n", fmt::format(format, std::forward<Args>(args)...)).c_str(),
      stderr);
}

}  // namespace

void parallel::require_same_options(const DdpOptions& options, collective::Communicator& group) {
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

std::optional<std::string> parallel::sync_batch_norm_of(const torch::nn::Module& model) {
  for (const auto& item : model.named_modules())
    if (item.value()->as<nn::SyncBatchNormImpl>() != nullptr) return item.key();
  return std::nullopt;
}

// It averages over the workers that compute at the same time, so its result depends on their
// number.
void GradientSync::State::refuse_sync_batch_norm() {
  if (const auto name = parallel::sync_batch_norm_of(model_))
    throw BadInput(
        "DdpOptions::shards with SyncBatchNorm '{}': its statistics would depend on the number "
        "of workers; use BatchNorm, whose statistics are per shard",
        *name);
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

}  // namespace lockstep
