#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/range.h"
#include "pipeline/schedule.h"

namespace lockstep::pipeline {

/// What a layer of a model costs. Bytes are of the memory of the device that computes it.
struct LayerCost {
  double seconds = 0;   ///< of a forward and a backward pass of a micro-batch
  int64_t state = 0;    ///< bytes that are always there: of parameters, gradients, the optimizer
  int64_t inputs = 0;   ///< bytes of a micro-batch that a part which begins with this layer holds
  int64_t held = 0;     ///< bytes of a micro-batch, from its forward until after its backward pass
  int64_t working = 0;  ///< bytes beside those, while the layer computes
};

/// What messages call the options of whoever divides a model.
struct OptionNames {
  const char* stages = "--stages";
  const char* split = "--split";
  const char* recompute = "parallel.recompute";
};

/// The layers of each part, where `text` lists the layers with which parts begin but the first:
/// "3,7,9" for four parts. A layer is a number, from 0, or one of `names`; messages list `titles`,
/// such as "3 (Linear)", for names that are numbers. Throws BadInput for another number of parts, a
/// layer that there is not, and a part without layers.
std::vector<Range> parse_split(const std::string& text, const std::vector<std::string>& names,
                               int parts, const OptionNames& options = {},
                               const std::vector<std::string>& titles = {});

/// The layers of each part, so that the part with the highest cost has the lowest possible; of
/// several such divisions the one whose first parts are shortest. `costs` are of layers. Throws
/// BadInput if there are more parts than layers.
std::vector<Range> balanced_split(const std::vector<double>& costs, int parts);

/// By stage, the bytes that it needs at most: the state of its layers, what is in flight by the
/// schedule, what its hungriest layer needs to compute, and the gradients of its inputs that it
/// sent last, which are kept until the next ones are sent.
std::vector<int64_t> bytes_of_stages(const std::vector<LayerCost>& layers,
                                     const std::vector<Range>& split,
                                     const PipelineSchedule& schedule);

/// A split, and whether all of its stages need at most `limit` bytes.
struct FittedSplit {
  std::vector<Range> split;
  bool fits = true;
};

/// The balanced split or, if that does not fit, the one with the fastest slowest part among those
/// that do; with several parts per stage, those in which each part needs an equal share of the
/// limit at most. If none fits, the split whose hungriest part needs least. A limit of 0 is none.
/// `blocks` are ranges of layers that are not divided; if there are none, every layer may begin a
/// part. Throws BadInput if there are more parts than layers or blocks.
FittedSplit fitted_split(const std::vector<LayerCost>& layers, const PipelineSchedule& schedule,
                         int64_t limit, const std::vector<Range>& blocks = {});

/// The lowest number of stages with which there is a split that fits, with as many micro-batches
/// and parts per stage. Nothing if there is none.
std::optional<int> stages_that_fit(const std::vector<LayerCost>& layers,
                                   const PipelineScheduleRow& row, PipelineShape shape,
                                   int64_t limit, const std::vector<Range>& blocks = {});

/// Throws BadInput if there are more parts than layers.
void require_enough_layers(size_t layers, int parts);
/// Throws BadInput if there are more parts than blocks.
void require_enough_blocks(const std::vector<Range>& blocks, int parts);

/// As parse_split takes it: "3,7,9".
std::string to_text(const std::vector<Range>& split);

}  // namespace lockstep::pipeline
