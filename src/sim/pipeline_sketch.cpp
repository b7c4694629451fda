// A pipeline's Gantt chart in characters. Words: a *box* is a forward or backward pass, from the
// column of its begin to that of its end; a *lane* is one line of the chart, for a part of a stage.
// All boxes have the same scale, so that columns can be compared between stages.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/pipeline_chart.h"

namespace lockstep::sim {
namespace {

using pipeline::Action;
using pipeline::PipelineShape;

constexpr int kMostLanes = 48;
constexpr int kLeastColumns = 20;
constexpr int kLabelDistance = 10;  // columns between labels of the time axis

// Wide enough for a digit and a direction in every box; narrower if that is too wide for the
// terminal, but never without them in the longest boxes.
double columns_per_second(const PassLengths& pass, double seconds, int columns) {
  for (const double scale : {2 / pass.shortest, 1 / pass.shortest})
    if (scale * pass.longest >= 2 && scale * seconds <= columns) return scale;
  return std::max(columns / seconds, 2 / pass.longest);
}

class Sketch {
 public:
  Sketch(const PipelineShape& shape, const PipelineTiming& timing, int columns)
      : shape_(shape),
        timing_(timing),
        stages_(std::clamp(kMostLanes / shape.parts_per_stage, 1, shape.stages)),
        in_flight_(shape.parts_per_stage == 1 ? "  in flight" : "  parts in flight"),
        name_width_(name_of(stages_ - 1, shape.parts() - 1).size() + 2) {
    const auto beside = static_cast<int>(name_width_ + in_flight_.size());
    const int room = std::max(kLeastColumns, columns - beside);
    scale_ = columns_per_second(pass_lengths(timing), timing.seconds, room);
    width_ = std::min<long>(room, column_of(timing.seconds));
  }

  std::string text() const {
    std::string text = axis();
    for (int stage = 0; stage < stages_; ++stage) text += rows_of(stage);
    return text + left_out() + legend();
  }

 private:
  long column_of(double time) const { return std::lround(time * scale_); }

  std::string name_of(int stage, int part) const {
    return shape_.parts_per_stage == 1 ? fmt::format("stage {}", stage)
                                       : fmt::format("stage {} part {}", stage, part);
  }

  std::string axis() const {
    const double step = tick_step(kLabelDistance / scale_);
    std::string line = fmt::format("{:<{}}", "time", name_width_);
    for (int tick = 0; column_of(tick * step) < width_; ++tick) {
      line.resize(name_width_ + static_cast<size_t>(column_of(tick * step)), ' ');
      line += fmt::format("{:g}", tick * step);
    }
    line.resize(std::max(line.size(), name_width_ + static_cast<size_t>(width_)), ' ');
    return line + in_flight_ + '\n';
  }

  std::string rows_of(int stage) const {
    const auto lanes = static_cast<size_t>(shape_.parts_per_stage);
    std::vector<std::string> lines(lanes, std::string(static_cast<size_t>(width_), '.'));
    for (const TimedAction& one : timing_.stages[static_cast<size_t>(stage)])
      if (one.action.computes()) draw(one, lines);
    std::string text;
    for (size_t lane = 0; lane < lanes; ++lane) {
      const int part = static_cast<int>(lane) * shape_.stages + stage;
      std::string line = fmt::format("{:<{}}{}", name_of(stage, part), name_width_, lines[lane]);
      if (lane == 0) line += fmt::format("  {}", timing_.in_flight[static_cast<size_t>(stage)]);
      text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    }
    return text;
  }

  // While one part computes, the lanes of the stage's other parts are blank: the stage is not idle.
  void draw(const TimedAction& pass, std::vector<std::string>& lines) const {
    const auto begin = static_cast<size_t>(std::min(width_, column_of(pass.begin)));
    const auto end = static_cast<size_t>(std::min(width_, column_of(pass.end)));
    if (begin == end) return;
    for (std::string& line : lines) line.replace(begin, end - begin, end - begin, ' ');
    const bool forward = pass.action.kind == Action::Kind::forward;
    std::string& line = lines[static_cast<size_t>(pass.action.part / shape_.stages)];
    line.replace(begin, end - begin, end - begin, forward ? '>' : '<');
    if (forward || end - begin > 1)
      line[begin] = static_cast<char>('0' + pass.action.micro_batch % 10);
  }

  std::string left_out() const {
    std::string text;
    if (stages_ < shape_.stages)
      text += fmt::format("shown: {} of {} stages\n", stages_, shape_.stages);
    if (width_ < column_of(timing_.seconds))
      text += fmt::format("shown: time up to {:.4g} of {:.4g}\n",
                          static_cast<double>(width_) / scale_, timing_.seconds);
    return text;
  }

  std::string legend() const {
    const bool narrow = scale_ * pass_lengths(timing_).shortest < 2;
    return fmt::format(
        "{}  forward pass of micro-batch 3     3<  its backward pass     .  the stage waits\n{}",
        narrow ? "3 or 3>" : "3>",
        shape_.micro_batches > 10 ? "of a micro-batch's number the last digit is shown\n" : "");
  }

  const PipelineShape& shape_;
  const PipelineTiming& timing_;
  int stages_;  // that are shown
  std::string in_flight_;
  size_t name_width_;
  double scale_ = 1;  // columns per second
  long width_ = 0;    // columns that are shown
};

}  // namespace

double tick_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1, 2, 5})
    if (factor * power >= least) return factor * power;
  return 10 * power;
}

PassLengths pass_lengths(const PipelineTiming& timing) {
  PassLengths lengths;
  for (const auto& stage : timing.stages)
    for (const TimedAction& one : stage) {
      const double length = one.action.computes() ? one.end - one.begin : 0;
      if (length <= 0) continue;
      lengths.longest = std::max(lengths.longest, length);
      lengths.shortest = lengths.shortest > 0 ? std::min(lengths.shortest, length) : length;
    }
  return lengths;
}

std::string sketch_pipeline(const PipelineShape& shape, const PipelineTiming& timing, int columns) {
  if (pass_lengths(timing).longest <= 0) return "nothing to draw: no pass takes any time\n";
  return Sketch(shape, timing, columns).text();
}

}  // namespace lockstep::sim
