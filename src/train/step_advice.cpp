// What to do about a step that needs more memory than a device has.
#include <string>

#include "base/units.h"
#include "lockstep/error.h"
#include "parallel/tensor_buffer.h"
#include "train/memory.h"
#include "train/outputs.h"
#include "train/step.h"
#include "virtual_devices/accounts.h"

namespace lockstep::train {

// A pass whose gradients are dropped, to see what memory it needs.
void Step::try_pass(TrainedPart& part, int micro_batch, Range range, const Scene& scene) {
  const MemoryScope scope(MemoryUse::activations);
  const Batch samples = moved(parts_.batches->part(scene.batch, range), part.device(micro_batch));
  const CallPlace place = scene.place(samples.samples, samples.samples);
  const Tensors outputs = outputs_of(part.part(micro_batch), samples.inputs, outputs_, place);
  const Loss loss = checked(parts_.objective->loss(outputs, samples));
  gradients_ = Gradients::dropped;
  loss.sum.backward();
  if (part.mirrors() != nullptr) part.mirrors()->forget_gradients();
}

std::string Step::advice_for(TrainedPart& part, const pipeline::Action& action,
                             const Scene& scene) {
  const Range samples = samples_of(scene, action.micro_batch);
  if (parts_.grid->shape().parts() > 1)
    return fmt::format(", which computes stage {} ({}), in the {} pass of a micro-batch of {}{}",
                       parts_.grid->shape().stage_of(action.part), part.part().describe(),
                       action.kind == Kind::backward ? "backward" : "forward",
                       plural(samples.size(), "sample"), parts_.stage_advice);
  part.forget(action.micro_batch);
  MemoryAccount* const account = virtual_devices::account_of(part.device(action.micro_batch));
  std::optional<int64_t> fit;
  if (account != nullptr)
    fit = samples_that_fit(*account, samples.size(), [&](int64_t fewer) {
      try_pass(part, action.micro_batch, {samples.begin, samples.begin + fewer}, scene);
    });
  gradients_ = Gradients::refused;
  return fmt::format(", in a pass over {}{}", plural(samples.size(), "sample"),
                     advice(fit, division_of(part)));
}

OutOfMemory Step::with_advice(const OutOfMemory& error, const pipeline::Action& action,
                              const Scene& scene) {
  TrainedPart& part = this->part(action.part);
  gradients_ = Gradients::refused;
  const bool copied = action.kind == Kind::scatter || action.kind == Kind::collect;
  return {error.device(), error.asked(), error.in_use(), error.limit(),
          fmt::format("{}; this was step {}{}", error.what(), scene.step,
                      copied ? fmt::format(", in which {} exchanged {} with {}{}",
                                           parallel::device_name(part.device()),
                                           action.kind == Kind::scatter ? "parameters and samples"
                                                                        : "gradients and buffers",
                                           parallel::device_name(part.device(action.micro_batch)),
                                           advice(std::nullopt, division_of(part)))
                             : advice_for(part, action, scene))};
}

}  // namespace lockstep::train
