#include "cli/pipeline_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/units.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

using pipeline::PipelineScheduleRow;
using pipeline::PipelineShape;

constexpr double kMostTime = 1e9;

void check_count(const char* flag, int value, int most) {
  if (value < 1 || value > most)
    throw BadInput("{} {}: expected 1 to {}", flag, value, format_count(most));
}

double parse_time(const char* flag, const std::string& list, const std::string& text) {
  double time = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), time);
  if (error != std::errc() || end != text.data() + text.size())
    throw BadInput("{} {}: '{}' is not a number; expected a time, or a list such as 1,1,2,1", flag,
                   list, text);
  if (!(time >= 0 && time <= kMostTime))
    throw BadInput("{} {}: expected 0 to {:g}", flag, list, kMostTime);
  return time;
}

// One time, or one for each stage or part.
std::vector<double> parse_times(const char* flag, const std::string& list, int stages, int parts) {
  std::vector<double> times;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    times.push_back(parse_time(flag, list, list.substr(begin, end - begin)));
    begin = end + 1;
  }
  const auto count = std::ssize(times);
  if (count != 1 && count != stages && count != parts)
    throw BadInput("{} {}: {} times; expected 1 or {}", flag, list, count,
                   parts == stages
                       ? fmt::format("{}, one for each stage", stages)
                       : fmt::format("{} (for each stage) or {} (for each part)", stages, parts));
  return times;
}

int parts_per_stage_of(const PipelineScheduleRow& row, const PipelineFlags& flags) {
  const int usual = row.usual_parts_per_stage;
  return usual == 1 ? 1 : flags.parts_per_stage.value_or(usual);
}

PipelineShape shape_of(const PipelineScheduleRow& row, const PipelineFlags& flags) {
  return {flags.stages, parts_per_stage_of(row, flags), flags.micro_batches};
}

void check_numbers(const PipelineFlags& flags) {
  check_count("--stages", flags.stages, pipeline::kMostStages);
  check_count("--micro-batches", flags.micro_batches, pipeline::kMostMicroBatches);
  if (flags.parts_per_stage)
    check_count("--parts-per-stage", *flags.parts_per_stage, pipeline::kMostPartsPerStage);
  if (!(flags.message >= 0 && flags.message <= kMostTime))
    throw BadInput("--message {}: expected 0 to {:g}", flags.message, kMostTime);
  if (flags.svg && !flags.schedule)
    throw BadInput("--svg {}: choose what to draw with --schedule: {}", *flags.svg,
                   fmt::join(pipeline::pipeline_schedules().names(), ", "));
}

std::vector<const PipelineScheduleRow*> rows_of(const PipelineFlags& flags) {
  std::vector<const PipelineScheduleRow*> rows;
  if (!flags.schedule) {
    for (const auto& row : pipeline::pipeline_schedules()) rows.push_back(row.get());
    return rows;
  }
  const PipelineScheduleRow& row = pipeline::pipeline_schedules().at(*flags.schedule);
  if (flags.parts_per_stage && *flags.parts_per_stage != parts_per_stage_of(row, flags))
    throw BadInput("--parts-per-stage {}: a stage of {} has 1 part", *flags.parts_per_stage,
                   row.name);
  return {&row};
}

bool is_nothing(const std::vector<double>& times) {
  return std::all_of(times.begin(), times.end(), [](double time) { return time == 0; });
}

// Times of parts from times of stages and the reverse: a stage's time is that of its share of the
// model, whichever parts of the model a schedule gives to it.
std::vector<double> times_by_part(const std::vector<double>& given, const PipelineShape& shape) {
  const auto parts = static_cast<size_t>(shape.parts());
  std::vector<double> times(parts);
  for (size_t part = 0; part < parts; ++part) {
    if (given.size() == 1) {
      times[part] = given[0] / shape.parts_per_stage;
    } else if (given.size() <= parts) {
      const size_t split = parts / given.size();
      times[part] = given[part / split] / static_cast<double>(split);
    } else {
      const size_t joined = given.size() / parts;
      for (size_t i = 0; i < joined; ++i) times[part] += given[part * joined + i];
    }
  }
  return times;
}

}  // namespace

void add_pipeline_flags(CLI::App& app, PipelineFlags& flags) {
  app.add_option("--stages", flags.stages, "number of stages (default 4)")->type_name("S");
  app.add_option("--micro-batches", flags.micro_batches,
                 "into which a global batch is divided (default 8)")
      ->type_name("M");
  app.add_option("--schedule", flags.schedule,
                 fmt::format("show one schedule, with a chart: {}",
                             fmt::join(pipeline::pipeline_schedules().names(), ", ")))
      ->type_name("NAME");
  app.add_option("--parts-per-stage", flags.parts_per_stage, "of interleaved (default 2)")
      ->type_name("V");
  app.add_option("--forward", flags.forward,
                 "time of a stage's forward pass, in any unit (default 1); or a list with one "
                 "for each stage or part: 1,1,2,1")
      ->type_name("TIME");
  app.add_option("--backward", flags.backward, "time of its backward pass (default 2)")
      ->type_name("TIME");
  app.add_option("--message", flags.message,
                 "time from stage to stage, of outputs and of gradients (default 0)")
      ->type_name("TIME");
  app.add_option("--svg", flags.svg, "draw the chart of --schedule into this file")
      ->type_name("FILE");
  app.add_flag("--json", flags.json, "print one JSON object per line");
}

PipelineQuestion question_of(const PipelineFlags& flags) {
  check_numbers(flags);
  PipelineQuestion question{.rows = rows_of(flags), .forward = {}, .backward = {}};
  const auto can_run = [&](const auto* row) { return !refusal_of(*row, flags); };
  if (std::none_of(question.rows.begin(), question.rows.end(), can_run))
    throw BadInput("{}", *refusal_of(*question.rows.front(), flags));
  int parts = 0;
  for (const PipelineScheduleRow* row : question.rows)
    parts = std::max(parts, shape_of(*row, flags).parts());
  question.forward = parse_times("--forward", flags.forward, flags.stages, parts);
  question.backward = parse_times("--backward", flags.backward, flags.stages, parts);
  if (is_nothing(question.forward) && is_nothing(question.backward))
    throw BadInput("--forward {} --backward {}: expected a time above 0 in one of them",
                   flags.forward, flags.backward);
  return question;
}

std::optional<std::string> refusal_of(const PipelineScheduleRow& row, const PipelineFlags& flags) {
  try {
    check(row, shape_of(row, flags));
    return std::nullopt;
  } catch (const BadInput& refusal) {
    return refusal.what();
  }
}

PipelineAnswer answer(const PipelineScheduleRow& row, const PipelineQuestion& question,
                      const PipelineFlags& flags) {
  const PipelineShape shape = shape_of(row, flags);
  const std::vector<double> messages(static_cast<size_t>(shape.parts()), flags.message);
  const sim::PipelineCosts costs{times_by_part(question.forward, shape),
                                 times_by_part(question.backward, shape), messages, messages};
  return {row, shape, costs, simulate(make_schedule(row, shape), costs)};
}

}  // namespace lockstep::cli
