// What to do about a step that needs more memory than a device has.
#include <string>

#include "base/units.h"
#include "lockstep/error.h"
#include "train/memory.h"
#include "train/outputs.h"
#include "train/step.h"
#include "virtual_devices/accounts.h"

namespace lockstep::train {

// A pass whose gradients are dropped, to see what memory it needs.
void Step::try_pass(TrainedPart& part, const Batch& samples, const Scene& scene) {
  const MemoryScope scope(MemoryUse::activations);
  const CallPlace place = scene.place(samples.samples, samples.samples);
  const Tensors outputs = outputs_of(part.part(), samples.inputs, outputs_, place);
  const Loss loss = checked(parts_.objective->loss(outputs, samples));
  gradients_ = Gradients::dropped;
  loss.sum.backward();
}

std::string Step::advice_for(TrainedPart& part, const pipeline::Action& action,
                             const Scene& scene) {
  const Range samples = samples_of(scene, action.micro_batch);
  const BatchDivision division = {batch_, part.replica().shards(), accumulate_};
  if (parts_.grid->shape().parts() > 1)
    return fmt::format(", which computes stage {} ({}), in the {} pass of a micro-batch of {}{}",
                       parts_.grid->shape().stage_of(action.part), part.part().describe(),
                       action.kind == Kind::backward ? "backward" : "forward",
                       plural(samples.size(), "sample"), parts_.stage_advice);
  part.forget(action.micro_batch);
  MemoryAccount* const account = virtual_devices::account_of(part.device());
  std::optional<int64_t> fit;
  if (account != nullptr)
    fit = samples_that_fit(*account, samples.size(), [&](int64_t fewer) {
      try_pass(part, parts_.batches->part(scene.batch, {samples.begin, samples.begin + fewer}),
               scene);
    });
  gradients_ = Gradients::refused;
  return fmt::format(", in a pass over {}{}", plural(samples.size(), "sample"),
                     advice(fit, division));
}

OutOfMemory Step::with_advice(const OutOfMemory& error, const pipeline::Action& action,
                              const Scene& scene) {
  TrainedPart& part = this->part(action.part);
  gradients_ = Gradients::refused;
  return {error.device(), error.asked(), error.in_use(), error.limit(),
          fmt::format("{}; this was step {}{}", error.what(), scene.step,
                      advice_for(part, action, scene))};
}

}  // namespace lockstep::train
