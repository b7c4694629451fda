#include "lockstep/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/model_error.h"
#include "device/memory_account.h"
#include "lockstep/error.h"
#include "parallel/module_modes.h"
#include "parallel/named_tensors.h"
#include "parallel/outgoing.h"
#include "parallel/pipeline_state.h"

namespace lockstep {

using parallel::PipelinePart;

namespace {

// What a function of the model or the user throws, with where it was.
template <typename Function>
auto with_place(const std::string& place, const Function& function) {
  try {
    return function();
  } catch (const c10::Error& error) {
    throw ModelError(fmt::format("{}; this was {}", error.what_without_backtrace(), place));
  }
}

}  // namespace

Tensors Pipeline::State::forward(const Tensors& inputs) {
  Tensors outputs;
  fail_stop_->run([&] {
    const MemoryScope scope(MemoryUse::activations);
    const torch::NoGradGuard no_grad;
    const parallel::InMode evaluation(*model_, parallel::Mode::evaluation);
    outputs = grid_.shared_from_last(outputs_of(inputs));
  });
  return outputs;
}

// Pieces of the samples go through this worker's parts, and on to those of the next worker, which
// learns from the last piece's notes that it is the last.
Tensors Pipeline::State::outputs_of(const Tensors& inputs) {
  if (const bool has_samples =
          inputs.size() > 0 && inputs.begin()->second.defined() && inputs.begin()->second.dim() > 0;
      has_first() && !has_samples)
    throw BadInput(
        "Pipeline::forward on rank {}: x is undefined, empty or has no dimension of samples, but "
        "this worker has the first stage",
        world_.rank());
  const int64_t samples = has_first() ? inputs.begin()->second.size(0) : 0;
  const int64_t count = std::clamp<int64_t>(samples, 1, options_.micro_batches);
  std::vector<Tensors> pieces;
  bool is_last_piece = false;
  for (int64_t i = 0; !is_last_piece; ++i)
    for (const auto& part : parts_) {
      const parallel::PartLinks& links = part->links();
      parallel::StageMessage message;
      if (part->part().is_first()) {
        const Range piece = slice(samples, count, i);
        message.tensors =
            parallel::moved(parallel::narrowed(inputs, piece.begin, piece.size()), part->device());
        message.notes = i + 1 == count ? 1 : 0;
      } else {
        message = links.inputs->receive();
      }
      is_last_piece = message.notes != 0;
      const Tensors outputs =
          with_place(fmt::format("Pipeline::forward of {}", part->part().describe()),
                     [&] { return part->part().forward(message.tensors); });
      if (part->part().is_last()) {
        pieces.push_back(parallel::moved(outputs, c10::kCPU));
        continue;
      }
      links.outputs->finish();  // so that at most one piece waits for its receiver
      const int64_t notes = message.notes;
      message = parallel::outgoing(part->part(), outputs);
      message.notes = notes;
      links.outputs->send(std::move(message));
    }
  for (const auto& part : parts_) part->finish_sending();
  return pieces.empty() ? Tensors() : parallel::concatenated(pieces);
}

double Pipeline::State::clip_gradient_norm(double largest) {
  std::vector<PipelinePart*> parts;
  for (const auto& part : parts_) parts.push_back(part.get());
  double norm = 0;
  fail_stop_->run([&] { norm = parallel::clip_gradients(parts, positions_, grid_, largest); });
  return norm;
}

Pipeline::Pipeline(const std::shared_ptr<torch::nn::Module>& model, World world,
                   PipelineOptions options)
    : state_(std::make_unique<State>(model, std::move(world), std::move(options))) {}

Pipeline::~Pipeline() = default;

std::vector<std::pair<std::string, torch::Tensor>> Pipeline::named_parameters() const {
  std::vector<std::pair<std::string, torch::Tensor>> all;
  for (const auto& part : state_->parts()) {
    const parallel::Parameters& own = part->replica().parameters();
    for (size_t i = 0; i < own.size(); ++i) all.emplace_back(own.names[i], own.tensors[i]);
  }
  return all;
}

std::vector<torch::Tensor> Pipeline::parameters() const {
  std::vector<torch::Tensor> all;
  for (const auto& [name, parameter] : named_parameters()) all.push_back(parameter);
  return all;
}

double Pipeline::run_step(const Tensors& inputs, const Tensors& targets, const LossFunction& loss) {
  return state_->step(inputs, targets, loss);
}

Tensors Pipeline::forward(const Tensors& inputs) {
  return state_->forward(inputs);
}

double Pipeline::clip_gradient_norm(double largest) {
  return state_->clip_gradient_norm(largest);
}

Tensors Pipeline::state() {
  return state_->whole_state();
}

void Pipeline::save_to(const std::string& path) {
  state_->save_to(path);
}

World Pipeline::replicas() const {
  return state_->replicas();
}

std::string Pipeline::split() const {
  return state_->split();
}

}  // namespace lockstep
