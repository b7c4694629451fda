// How a run is taken up from a checkpoint or from the memory of its workers, and kept in
// checkpoints.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/error.h"
#include "run/model_description.h"
#include "train/training_run.h"

namespace lockstep::train {

using run::Json;
using run::Safetensors;

namespace {

// The start event of the run before it was stopped.
Json last_start(const run::RunFolder& folder) {
  Json last = Json::object();
  for (Json& event : run::read_events(folder.events()))
    if (event.value("event", "") == "start") last = std::move(event);
  return last;
}

}  // namespace

// Continues from the memory of the worker with the most finished steps; else from the newest
// checkpoint.
void TrainingRun::take_up(const Safetensors* memory) {
  point_.data_sha256 = setup_.data->digest;
  point_.step = -1;
  if (memory != nullptr) point_ = restore(*memory, "memory", *setup_.model, step_);
  std::vector<int64_t> steps;
  for (const std::string& text : setup_.group.gather_texts(fmt::format("{}", point_.step)))
    steps.push_back(std::stoll(text));
  const auto furthest = std::max_element(steps.begin(), steps.end());
  if (*furthest >= 0) {
    take_state_of(static_cast<int>(furthest - steps.begin()));
    return reporter_.go_on(point_.step);
  }
  point_.step = 0;
  if (folder_ == nullptr)
    reporter_.start(setup_.parameter_count);
  else
    load_checkpoint();
  take_state_of(0);
  reporter_.go_on(point_.step);
}

void TrainingRun::load_checkpoint() {
  auto found = checkpoints_->newest();
  const Json before = last_start(*folder_);
  if (!found) {
    if (setup_.lacks_weights)
      throw BadInput("{}: no such file, and {} has no checkpoint to resume from",
                     recipe_.model.weights, folder_->path().string());
    reporter_.start(setup_.parameter_count);
    if (folder_->goes_on())
      reporter_.warn(
          fmt::format("{} has no checkpoint to resume from: the run starts again at step 0",
                      folder_->path().string()));
    return;
  }
  ResumePoint resumed = restore(found->state, found->path, *setup_.model, step_);
  if (resumed.data_sha256 != setup_.data->digest)
    throw BadInput(
        "{}: was trained on other data: {} has changed since then; restore it, or start a new run",
        found->path.string(), recipe_.data.name);
  reporter_.start(setup_.parameter_count);
  for (const std::string& warning : found->warnings) reporter_.warn(warning);
  point_ = std::move(resumed);
  last_checkpoint_step_ = point_.step;
  reporter_.resume(point_.step, found->path.string(), before);
  if (point_.best.figure != setup_.ranking.figure()) point_.best = {};  // changed by --force
  find_best_weights(weights_in(found->state));
  loaded_ = std::move(found->state);
}

// They are missing if they were not asked for before, or were removed.
void TrainingRun::find_best_weights(const std::vector<run::TensorView>& weights) {
  const bool exist = std::filesystem::exists(folder_->best_weights());
  if (exist && !kept_checkpoints(recipe_).best)
    reporter_.warn(fmt::format("{} is not updated any more: checkpoint.keep is not \"best\"",
                               folder_->best_weights().string()));
  if (exist || !kept_checkpoints(recipe_).best || point_.best.step == 0) return;
  if (point_.best.step == point_.step)
    save_weights(folder_->best_weights(), weights, about_the_model());
  else
    reporter_.warn(
        fmt::format("{} is missing, and the weights of the best epoch so far (after step {}) with "
                    "it; it will be written after a better one",
                    folder_->best_weights().string(), point_.best.step));
}

// All workers get the donor's state, since other hosts may lack the checkpoint or weights file.
void TrainingRun::take_state_of(int donor) {
  Safetensors checkpoint = std::exchange(loaded_, {});
  if (setup_.group.world_size() == 1) return;
  const auto texts = setup_.group.gather_texts(to_text(point_));
  point_ = resume_point_from(texts[static_cast<size_t>(donor)]);
  if (setup_.grid->shape().stages == 1)
    parallel::FlatState(state_tensors(step_), setup_.group).broadcast(donor);
  if (step_.state_is_divided() && point_.step > 0) take_parts_of(std::move(checkpoint));
}

// Each worker takes what it keeps of the checkpoint that rank 0 has loaded.
void TrainingRun::take_parts_of(Safetensors checkpoint) {
  broadcast(checkpoint, setup_.world);
  if (setup_.group.rank() > 0) restore(checkpoint, "rank 0's checkpoint", *setup_.model, step_);
}

void TrainingRun::remember(Safetensors& into) {
  step_.roll_back();
  point_.spent.total += since_clocked_.restart();
  capture(CollectedState(*setup_.model, step_, CollectedState::Content::everything), point_, {},
          into);
}

// Rank 0 writes the model's weights to a file of the run's folder. Returns their digest there.
std::string TrainingRun::write_weights(std::filesystem::path (run::RunFolder::*file)() const) {
  if (folder_ == nullptr && setup_.grid->is_whole()) return {};
  const Stopwatch stopwatch;
  const CollectedState state(*setup_.model, step_, CollectedState::Content::weights);
  if (folder_ != nullptr) save_weights((folder_->*file)(), state.model(), about_the_model());
  point_.spent.checkpoint += stopwatch.seconds();
  return model_sha256(state);
}

void TrainingRun::save_checkpoint() {
  last_checkpoint_step_ = point_.step;
  point_.spent.total += since_clocked_.restart();
  if (!writer_ && !step_.state_is_divided()) return;
  const Stopwatch stopwatch;
  const CollectedState state(*setup_.model, step_, CollectedState::Content::everything);
  if (!writer_) return;
  capture(state, point_, about_the_model(), writer_->begin());
  writer_->write(point_.step);
  point_.spent.checkpoint += stopwatch.seconds();
}

void TrainingRun::report_checkpoints() {
  if (!writer_) return;
  for (const auto& written : writer_->take_written()) reporter_.checkpoint(written);
}

void TrainingRun::await_checkpoints() {
  if (writer_) writer_->finish();
  report_checkpoints();
}

void TrainingRun::finish_checkpoints() {
  if (last_checkpoint_step_ != point_.step) save_checkpoint();
  await_checkpoints();
}

// Other programs, `evaluate` and `predict` use the model by it.
run::Metadata TrainingRun::about_the_model() const {
  return run::to_metadata({.name = recipe_.model.name,
                           .options = recipe_.model.options,
                           .kernels = recipe_.train.kernels,
                           .precision = recipe_.train.precision,
                           .threads = recipe_.train.threads,
                           .objective = recipe_.objective.name,
                           .objective_options = recipe_.objective.options,
                           .data = recipe_.data.name,
                           .data_options = recipe_.data.options,
                           .hold_out = recipe_.data.hold_out,
                           .data_sha256 = setup_.data->digest,
                           .fields = setup_.data->fields,
                           .normalization = setup_.data->normalization});
}

}  // namespace lockstep::train
