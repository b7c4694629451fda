#include "train/trainer.h"

#include <optional>
#include <utility>

#include "parallel/fail_stop.h"
#include "train/setup.h"
#include "train/training_run.h"

namespace lockstep::train {

using run::Json;
using run::Outcome;

Trainer::Trainer(Recipe recipe, World world, std::shared_ptr<const data::TrainingData> data,
                 Facts facts, Start start, const std::string& devices)
    : setup_(std::make_unique<Setup>(std::move(recipe), std::move(world), std::move(data),
                                     std::move(facts), start, devices)) {}

Trainer::~Trainer() = default;

Json Trainer::shown_metrics() const {
  return objective::shown_metrics(setup_->objective->metrics());
}

Outcome Trainer::run(const run::RunFolder* folder, run::EventLog& events, const Limits& limits,
                     const Circumstances& circumstances, std::optional<run::Safetensors>* memory) {
  const MemoryScope scope(MemoryUse::other);
  const bool remembers = memory != nullptr && memory->has_value();
  TrainingRun run(*setup_, folder, events, circumstances, remembers ? &**memory : nullptr);
  const auto remember = [&] {
    if (memory != nullptr) run.remember(memory->emplace());
  };
  try {
    Outcome outcome = run.to_its_end(limits);
    if (outcome.kind == Outcome::Kind::regrouped) remember();
    return outcome;
  } catch (...) {
    remember();
    run.abort(parallel::text_of(std::current_exception()));
    throw;
  }
}

}  // namespace lockstep::train
