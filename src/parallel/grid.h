#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/world.h"
#include "parallel/stage_link.h"
#include "pipeline/schedule.h"

namespace lockstep::parallel {

/// How workers divide a model and its batches: a grid of pipelines x stages. A pipeline computes
/// the whole model; pipelines divide the shards of a batch. Worker d * stages + s computes stage s
/// of pipeline d; a pipeline may also be one worker, which computes all stages on devices of its
/// own. With one stage every worker is a pipeline.
class Grid {
 public:
  /// Of the shape, the number of micro-batches is not used. Collective, if there are stages.
  Grid(World everyone, const pipeline::PipelineShape& shape);

  const pipeline::PipelineShape& shape() const { return shape_; }
  int pipelines() const { return pipelines_; }
  int pipeline() const { return pipeline_; }
  /// The parts that this worker computes, in their order.
  const std::vector<int>& parts() const { return parts_; }
  bool has_part(int part) const;
  /// Whether this worker computes all stages of its pipeline.
  bool is_whole() const { return members_ == 1; }

  /// The workers that compute the same part as this one, ranked by pipeline.
  World& replicas(int part);
  /// All worlds that were made for the grid.
  std::vector<World> worlds() const;

  // Between the workers of a pipeline, all of which call the same. They do nothing where a pipeline
  // is one worker.

  /// The numbers become those of the worker with the last part.
  void share_from_last(std::vector<double>& numbers);
  /// The tensors of the worker with the last part, in host memory.
  Tensors shared_from_last(const Tensors& tensors);
  /// The numbers become their sums.
  void add_up(std::vector<double>& numbers);
  /// The texts of all workers, in the order of stages.
  std::vector<std::string> gathered(std::vector<std::string> texts);
  /// The bytes of all workers, in the order of stages, on the one with the first stage.
  std::vector<std::byte> joined_on_first(std::vector<std::byte> bytes);

 private:
  const pipeline::PipelineShape shape_;
  const int pipelines_;
  const int members_;  ///< workers of a pipeline
  const int pipeline_;
  std::vector<int> parts_;
  std::vector<World> replicas_;  ///< as parts_
  std::optional<World> pipeline_world_;
};

/// The links of a worker's parts: to the next part and back.
struct PartLinks {
  std::shared_ptr<StageLink> inputs, outputs;              ///< forwards; none at the ends
  std::shared_ptr<StageLink> output_gradients, gradients;  ///< backwards: received, sent
  /// Whether the model's last part is on the same worker and device, so that the objective reads
  /// the same samples as the first part.
  bool last_is_here = false;

  /// Those of the links to other workers.
  std::vector<World> worlds() const;
};

/// By part of this worker, as Grid::parts; `devices` as well. Collective.
std::vector<PartLinks> link_parts(const Grid& grid, World everyone,
                                  const std::vector<c10::Device>& devices);

}  // namespace lockstep::parallel
