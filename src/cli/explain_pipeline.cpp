#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/atomic_file.h"
#include "base/shipped.h"
#include "base/units.h"
#include "cli/explain.h"
#include "cli/pipeline_flags.h"
#include "lockstep/error.h"
#include "sim/pipeline_chart.h"

namespace lockstep::cli {
namespace {

using pipeline::PipelineScheduleRow;
using pipeline::PipelineShape;
using sim::PipelineTiming;

constexpr int kMostDrawnStages = 64;
constexpr int kMostDrawnPasses = 500;  // of the longest ones, one after another

// "4 stages, 8 micro-batches, 2 parts per stage".
std::string describe(const PipelineShape& shape) {
  std::string text = plural(shape.stages, "stage");
  text += shape.micro_batches == 1 ? ", 1 micro-batch"
                                   : fmt::format(", {} micro-batches", shape.micro_batches);
  if (shape.parts_per_stage > 1) text += fmt::format(", {} parts per stage", shape.parts_per_stage);
  return text;
}

std::string describe_times(const PipelineFlags& flags) {
  return fmt::format("a stage takes {} forwards and {} backwards, a message {:g}", flags.forward,
                     flags.backward, flags.message);
}

void print_heading(const PipelineFlags& flags) {
  fmt::print("pipeline of {}; {}\n\n", describe({flags.stages, 1, flags.micro_batches}),
             describe_times(flags));
  fmt::print("{:<16} {:>9} {:>8} {:>13}   {}\n", "schedule", "time", "bubble", "in flight",
             "formulas of bubble and in flight");
}

std::string row_name(const PipelineScheduleRow& row, const PipelineShape& shape) {
  return shape.parts_per_stage == 1 ? row.name
                                    : fmt::format("{}, v={}", row.name, shape.parts_per_stage);
}

void print_row(const PipelineAnswer& answer) {
  const PipelineTiming& timing = answer.timing;
  const auto micro_batches = [&](int parts) {
    return static_cast<double>(parts) / answer.shape.parts_per_stage;
  };
  const int most = *std::max_element(timing.in_flight.begin(), timing.in_flight.end());
  fmt::print(
      "{:<16} {:>9.7g} {:>6.1f} % {:>13}   {}; {}\n", row_name(answer.row, answer.shape),
      timing.seconds, 100 * timing.bubble,
      fmt::format("{:.4g} / {:.4g}", micro_batches(timing.in_flight.front()), micro_batches(most)),
      answer.row.bubble, answer.row.in_flight);
}

void print_notes() {
  fmt::print(
      "\nin flight: micro-batches whose activations are held at once, on the first stage / most of "
      "all stages\n"
      "formulas: S stages, M micro-batches, stage s (0 is the first), v parts per stage, which "
      "count "
      "1/v each;\n"
      "          for stages that take equally long, without message time\n");
}

void print_json(const PipelineAnswer& answer, const PipelineFlags& flags) {
  const nlohmann::ordered_json row = {{"op", "pipeline"},
                                      {"schedule", answer.row.name},
                                      {"stages", answer.shape.stages},
                                      {"parts_per_stage", answer.shape.parts_per_stage},
                                      {"micro_batches", answer.shape.micro_batches},
                                      {"forward", answer.costs.forward},
                                      {"backward", answer.costs.backward},
                                      {"message", flags.message},
                                      {"time", answer.timing.seconds},
                                      {"bubble", answer.timing.bubble},
                                      {"busy", answer.timing.busy},
                                      {"parts_in_flight", answer.timing.in_flight},
                                      {"bubble_formula", answer.row.bubble},
                                      {"in_flight_formula", answer.row.in_flight}};
  fmt::print("{}\n", row.dump());
}

// The other schedules are compared all the same.
void print_refusal(const PipelineScheduleRow& row, const std::string& refusal,
                   const PipelineFlags& flags) {
  if (flags.json)
    fmt::print(
        "{}\n",
        nlohmann::ordered_json{{"op", "pipeline"}, {"schedule", row.name}, {"refused", refusal}}
            .dump());
  else
    fmt::print("{:<16} {:>9} {:>8} {:>13}   {}\n", row.name, "-", "-", "-", refusal);
}

void draw(const PipelineAnswer& answer, const PipelineFlags& flags, const std::string& file) {
  const double passes = answer.timing.seconds / pass_lengths(answer.timing).longest;
  if (answer.shape.stages > kMostDrawnStages)
    throw BadInput("--svg {}: --stages {}: expected at most {} stages in a picture", file,
                   answer.shape.stages, kMostDrawnStages);
  if (passes > kMostDrawnPasses)
    throw BadInput(
        "--svg {}: a picture of {:.0f} times the longest pass; expected at most {}: take fewer "
        "--micro-batches or --stages",
        file, passes, kMostDrawnPasses);
  const std::string title = answer.row.name + ": " + describe(answer.shape);
  write_file_atomically(file,
                        draw_pipeline(answer.shape, answer.timing, title, describe_times(flags)));
}

int terminal_columns() {
  constexpr int kColumns = 120;  // of a pipe or file
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kColumns;
}

void explain_one(const PipelineAnswer& answer, const PipelineFlags& flags) {
  if (flags.svg) draw(answer, flags, *flags.svg);
  if (flags.json) return print_json(answer, flags);
  print_heading(flags);
  print_row(answer);
  fmt::print("\n{}: {}\n\n{}", answer.row.name, answer.row.about,
             sketch_pipeline(answer.shape, answer.timing, terminal_columns()));
  print_notes();
  if (flags.svg) fmt::print("\nthe chart is drawn in {}\n", *flags.svg);
}

int explain_pipeline(const PipelineFlags& flags) {
  const PipelineQuestion question = question_of(flags);
  if (flags.schedule) {
    explain_one(answer(*question.rows.front(), question, flags), flags);
    return 0;
  }
  if (!flags.json) print_heading(flags);
  for (const PipelineScheduleRow* row : question.rows) {
    if (const auto refusal = refusal_of(*row, flags))
      print_refusal(*row, *refusal, flags);
    else if (flags.json)
      print_json(answer(*row, question, flags), flags);
    else
      print_row(answer(*row, question, flags));
  }
  if (!flags.json) print_notes();
  return 0;
}

class ExplainPipelineCommand final : public Command {
 public:
  explicit ExplainPipelineCommand(CLI::App& parent)
      : Command(parent, "pipeline", "Show how pipeline schedules work and what they cost") {
    add_pipeline_flags(app(), flags_);
    app().footer(fmt::format(
        "Schedules:\n{}"
        "They are described in {}.\n"
        "'bubble' is the share of the time in which stages wait.\n"
        "Examples:\n"
        "  lockstep explain pipeline --stages 4 --micro-batches 8\n"
        "  lockstep explain pipeline --schedule 1f1b\n"
        "  lockstep explain pipeline --schedule interleaved --parts-per-stage 3 --svg chart.svg\n"
        "  lockstep explain pipeline --stages 3 --forward 4,5,3 --backward 8,10,6 --message 0.5",
        pipeline::pipeline_schedules().help(), shipped("docs/pipelines.md")));
  }

  int run() override { return explain_pipeline(flags_); }

 private:
  PipelineFlags flags_;
};

}  // namespace

std::unique_ptr<Command> add_explain_pipeline(CLI::App& parent) {
  return std::make_unique<ExplainPipelineCommand>(parent);
}

}  // namespace lockstep::cli
