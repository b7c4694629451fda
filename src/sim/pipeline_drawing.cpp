// A pipeline's Gantt chart as an SVG: a row for each stage, striped where the stage waits, with a
// box for each pass. Boxes of a stage's later parts are lighter.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "lockstep/error.h"
#include "sim/pipeline_chart.h"

namespace lockstep::sim {
namespace {

using pipeline::Action;
using pipeline::PipelineShape;

constexpr double kLeft = 76;
constexpr double kRight = 108;
constexpr double kTop = 106;
constexpr double kRowHeight = 36;
constexpr double kBoxHeight = 28;
constexpr double kBottom = 80;       // the axis and the legend
constexpr double kLeastWidth = 600;  // of the rows
constexpr double kMostWidth = 8000;
constexpr double kDigitWidth = 7.5;
constexpr double kTickDistance = 56;

struct Colour {
  int red, green, blue;

  std::string mixed_with_white(double share) const {
    const auto mix = [&](int value) {
      return static_cast<int>(std::lround(value + (255 - value) * share));
    };
    return fmt::format("#{:02x}{:02x}{:02x}", mix(red), mix(green), mix(blue));
  }
};

constexpr Colour kForward{0x2b, 0x66, 0xad};
constexpr Colour kBackward{0xc7, 0x5b, 0x12};
constexpr double kLightest = 0.6;  // share of white in the last part's colour

std::string text_at(double x, double y, const std::string& text, const char* attributes) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes, text);
}

// As wide as the numbers in boxes need, within limits.
double pixels_per_second(const PipelineShape& shape, const PipelineTiming& timing) {
  const auto digits = static_cast<double>(std::to_string(shape.micro_batches - 1).size());
  const double wanted = (8 + digits * kDigitWidth) / pass_lengths(timing).shortest;
  return std::clamp(wanted, kLeastWidth / timing.seconds, kMostWidth / timing.seconds);
}

class Drawing {
 public:
  Drawing(const PipelineShape& shape, const PipelineTiming& timing, const std::string& title,
          const std::string& times)
      : shape_(shape),
        timing_(timing),
        title_(title),
        times_(times),
        scale_(pixels_per_second(shape, timing)),
        end_(kLeft + timing.seconds * scale_),
        bottom_(kTop + kRowHeight * shape.stages) {}

  std::string text() const {
    std::string svg = head() + heading() + axis();
    for (int stage = 0; stage < shape_.stages; ++stage) svg += row_of(stage);
    return svg + legend() + "</svg>\n";
  }

 private:
  double x_of(double time) const { return kLeft + time * scale_; }
  static double y_of(int stage) {
    return kTop + kRowHeight * stage + (kRowHeight - kBoxHeight) / 2;
  }

  std::string head() const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"13\">\n"
        "<defs><pattern id=\"waits\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#f4f5f7\"/>"
        "<rect width=\"2\" height=\"6\" fill=\"#d3d8df\"/></pattern></defs>\n"
        "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"white\"/>\n",
        end_ + kRight, bottom_ + kBottom);
  }

  std::string heading() const {
    const std::string about = fmt::format("time {:.4g}, of which stages wait {:.1f} % (the bubble)",
                                          timing_.seconds, 100 * timing_.bubble);
    return text_at(16, 28, title_, "font-size=\"17\" font-weight=\"bold\" fill=\"#1b2733\"") +
           text_at(16, 50, about, "fill=\"#56616e\"") +
           text_at(16, 70, times_, "fill=\"#56616e\"") +
           text_at(end_ + 14, kTop - 8,
                   shape_.parts_per_stage == 1 ? "in flight" : "parts in flight",
                   "font-size=\"12\" fill=\"#56616e\"");
  }

  std::string axis() const {
    std::string svg;
    const double step = tick_step(kTickDistance / scale_);
    for (int tick = 0; tick * step <= timing_.seconds * (1 + 1e-9); ++tick) {
      const double x = x_of(tick * step);
      svg += fmt::format(
          "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" "
          "stroke=\"#c3c9d1\"/>\n",
          x, kTop - 2, bottom_ + 6);
      svg += text_at(x, bottom_ + 22, fmt::format("{:g}", tick * step),
                     "font-size=\"12\" text-anchor=\"middle\" fill=\"#56616e\"");
    }
    return svg + text_at(16, bottom_ + 22, "time", "font-size=\"12\" fill=\"#56616e\"");
  }

  std::string row_of(int stage) const {
    const double y = y_of(stage);
    std::string svg =
        text_at(16, y + kBoxHeight / 2 + 5, fmt::format("stage {}", stage), "fill=\"#1b2733\"");
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" "
        "fill=\"url(#waits)\"/>\n",
        kLeft, y, end_ - kLeft, kBoxHeight);
    for (const TimedAction& one : timing_.stages[static_cast<size_t>(stage)])
      if (one.action.computes() && one.end > one.begin) svg += box(one, y);
    return svg + text_at(end_ + 14, y + kBoxHeight / 2 + 5,
                         fmt::format("{}", timing_.in_flight[static_cast<size_t>(stage)]),
                         "font-weight=\"bold\" fill=\"#1b2733\"");
  }

  // How much white is in the colour of a part.
  double lightness_of(int part) const {
    const int last = shape_.parts_per_stage - 1;
    const int round = part / shape_.stages;
    return last == 0 ? 0 : kLightest * round / last;
  }

  std::string box(const TimedAction& pass, double y) const {
    const bool forward = pass.action.kind == Action::Kind::forward;
    const double light = lightness_of(pass.action.part);
    const double width = (pass.end - pass.begin) * scale_;
    const std::string number = fmt::format("{}", pass.action.micro_batch);
    std::string svg = fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" rx=\"2\" fill=\"{}\" "
        "stroke=\"white\"><title>{}: {:g} to {:g}</title></rect>\n",
        x_of(pass.begin), y, width, kBoxHeight,
        (forward ? kForward : kBackward).mixed_with_white(light), to_string(pass.action),
        pass.begin, pass.end);
    if (width >= static_cast<double>(number.size()) * kDigitWidth + 2)
      svg += text_at(x_of(pass.begin) + width / 2, y + kBoxHeight / 2 + 4.5, number,
                     light > kLightest / 2 ? "text-anchor=\"middle\" fill=\"#1b2733\""
                                           : "text-anchor=\"middle\" fill=\"white\"");
    return svg;
  }

  std::string legend() const {
    const double y = bottom_ + 48;
    const auto entry = [&](double x, const std::string& fill, const char* meaning) {
      return fmt::format(
                 "<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"22\" height=\"15\" rx=\"2\" "
                 "fill=\"{}\"/>\n",
                 x, y, fill) +
             text_at(x + 30, y + 12, meaning, "fill=\"#1b2733\"");
    };
    std::string svg = entry(kLeft, kForward.mixed_with_white(0), "forward") +
                      entry(kLeft + 110, kBackward.mixed_with_white(0), "backward") +
                      entry(kLeft + 228, "url(#waits)", "waits (bubble)");
    if (shape_.parts_per_stage > 1)
      svg += text_at(kLeft + 370, y + 12, "lighter: later parts of a stage", "fill=\"#1b2733\"");
    return svg;
  }

  const PipelineShape& shape_;
  const PipelineTiming& timing_;
  const std::string& title_;
  const std::string& times_;
  double scale_;   // pixels per second
  double end_;     // of the rows, in pixels from the left
  double bottom_;  // of the rows, in pixels from the top
};

}  // namespace

std::string draw_pipeline(const PipelineShape& shape, const PipelineTiming& timing,
                          const std::string& title, const std::string& times) {
  if (pass_lengths(timing).longest <= 0)
    throw BadInput("a chart of a pipeline in which no pass takes any time: nothing to draw");
  return Drawing(shape, timing, title, times).text();
}

}  // namespace lockstep::sim
