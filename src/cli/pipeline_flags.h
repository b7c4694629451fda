#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/schedule.h"
#include "sim/pipeline.h"

namespace lockstep::cli {

/// The flags of `lockstep explain pipeline`.
struct PipelineFlags {
  int stages = 4;
  int micro_batches = 8;
  std::optional<int> parts_per_stage;
  std::optional<std::string> schedule;
  std::string forward = "1";
  std::string backward = "2";
  double message = 0;
  std::optional<std::string> svg;
  bool json = false;
};

void add_pipeline_flags(CLI::App& app, PipelineFlags& flags);

/// Pipelines that are compared: the same model and stages with different schedules.
struct PipelineQuestion {
  std::vector<const pipeline::PipelineScheduleRow*> rows;
  std::vector<double> forward;  ///< one for all stages, one for each stage, or one for each part
  std::vector<double> backward;
};

/// Throws BadInput, which names the flag, for what cannot be; also if no schedule can run it.
PipelineQuestion question_of(const PipelineFlags& flags);

/// Why a schedule cannot run what the flags say; nothing if it can.
std::optional<std::string> refusal_of(const pipeline::PipelineScheduleRow& row,
                                      const PipelineFlags& flags);

/// One of them, simulated.
struct PipelineAnswer {
  const pipeline::PipelineScheduleRow& row;
  pipeline::PipelineShape shape;
  sim::PipelineCosts costs;
  sim::PipelineTiming timing;
};

PipelineAnswer answer(const pipeline::PipelineScheduleRow& row, const PipelineQuestion& question,
                      const PipelineFlags& flags);

}  // namespace lockstep::cli
