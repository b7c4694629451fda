#pragma once

#include <string>
#include <vector>

#include "base/table.h"

namespace lockstep::pipeline {

/// How a pipeline is divided. A model is cut into *parts*, numbered in the model's order. A *stage*
/// computes the parts whose number modulo the number of stages is its own: one part, or several if
/// the schedule interleaves them. A *micro-batch* is a shard of the global batch.
struct PipelineShape {
  int stages = 1;
  int parts_per_stage = 1;
  int micro_batches = 1;

  int parts() const { return stages * parts_per_stage; }
  int stage_of(int part) const { return part % stages; }
  bool operator==(const PipelineShape&) const = default;
};

/// What a stage does with one part and one micro-batch.
///
/// receive_input     waits for the output of the part before
/// forward           computes the part's output, and keeps what its backward pass needs
/// send_output       to the stage of the part after it; does not wait
/// receive_gradient  waits for the gradient of the part's output, from the part after it
/// backward          computes gradients of the part's parameters and input; the last part begins
///                   with the loss
/// send_gradient     of the part's input, to the stage of the part before; does not wait
///
/// There are no messages between parts on the same stage, which happens with one stage only.
///
/// Where one worker has the whole model on several devices (see in_groups.h), and in no pipeline:
///
/// scatter           copies samples, parameters and buffers to the micro-batch's device
/// collect           copies gradients and buffers to the first device
/// finish            adds the micro-batch's gradients, buffers and metrics to those before it
struct Action {
  enum class Kind {
    receive_input,
    forward,
    send_output,
    receive_gradient,
    backward,
    send_gradient,
    scatter,
    collect,
    finish
  };

  Kind kind;
  int part;
  int micro_batch;

  bool computes() const { return kind == Kind::forward || kind == Kind::backward; }
  bool receives() const { return kind == Kind::receive_input || kind == Kind::receive_gradient; }
  bool sends() const { return kind == Kind::send_output || kind == Kind::send_gradient; }
  bool operator==(const Action&) const = default;
};

/// "backward of part 2, micro-batch 5".
std::string to_string(const Action& action);

/// The stage that an action receives from or sends to; for one that computes, its own.
int peer_of(const PipelineShape& shape, const Action& action);

/// What every stage does, in order, as plain data: the executor runs it, the simulator
/// (sim/pipeline.h) times it, and tests interpret it symbolically. Promised of every schedule:
///
/// - Every stage computes every micro-batch forwards and backwards once through each of its parts,
///   and of each part in the order of micro-batches: so gradients are added in that order.
/// - Between two stages messages are received in the order in which they are sent, outputs and
///   gradients each for themselves.
/// - It ends, if sending does not wait for the receiver.
struct PipelineSchedule {
  PipelineShape shape;
  std::vector<std::vector<Action>> actions;  ///< by stage
};

/// A way to run a pipeline. Each is one file, which adds its row to the table when it is loaded:
///
///     [[maybe_unused]] const bool gpipe_added = pipeline_schedules().add(
///         {.name = "gpipe", .about = "...", .bubble = "...", .in_flight = "...", .order = gpipe});
///
/// Names, help texts, messages and `explain` come from the table. In formulas there are S stages, v
/// parts per stage and M micro-batches; s is the stage.
struct PipelineScheduleRow {
  std::string name;
  std::string about;      ///< how it works, in one line
  std::string bubble;     ///< share of the time in which stages wait, if all take equally long
  std::string in_flight;  ///< what memory_in_flight() is on stage s
  /// The forward and backward passes of a stage in their order; messages are added to them.
  std::vector<Action> (*order)(const PipelineShape& shape, int stage);
  /// How many parts a stage has unless that is chosen; 1 if it always has one.
  int usual_parts_per_stage = 1;
  /// Throws BadInput for a shape that it cannot run.
  void (*check)(const PipelineShape& shape) = [](const PipelineShape&) {};
};

/// All of them, by name.
Table<PipelineScheduleRow>& pipeline_schedules();

inline constexpr int kMostStages = 1024;
inline constexpr int kMostPartsPerStage = 64;
inline constexpr int kMostMicroBatches = 65536;
/// Of parts x micro-batches; there are up to six actions for each.
inline constexpr int kMostPasses = 1 << 20;

/// Throws BadInput for a shape that is out of range or that this schedule cannot run.
void check(const PipelineScheduleRow& row, const PipelineShape& shape);

/// The schedule of this row for a shape. A pure function. Throws BadInput as check() does.
PipelineSchedule make_schedule(const PipelineScheduleRow& row, const PipelineShape& shape);

/// For makers: an order in which forward passes are `ahead` of backward passes. First `ahead`
/// forward passes, then by turns one forward and one backward, then the remaining backward passes.
std::vector<Action> alternate(const std::vector<Action>& forwards,
                              const std::vector<Action>& backwards, int ahead);

/// For makers: the passes of all micro-batches through one part.
std::vector<Action> passes(Action::Kind kind, int part, int micro_batches);

/// By stage, the largest number of activations held at once: of a part and a micro-batch, from the
/// forward until after the backward pass.
std::vector<int> memory_in_flight(const PipelineSchedule& schedule);

}  // namespace lockstep::pipeline
