#include "sim/pipeline_chart.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "expect_error.h"

namespace lockstep::sim {
namespace {

using pipeline::PipelineShape;

PipelineTiming chart_timing(const std::string& name, const PipelineShape& shape, double forward = 1,
                            double backward = 2) {
  const auto parts = static_cast<size_t>(shape.parts());
  const std::vector<double> none(parts);
  return simulate(make_schedule(pipeline::pipeline_schedules().at(name), shape),
                  {std::vector(parts, forward), std::vector(parts, backward), none, none});
}

std::string sketch(const std::string& name, const PipelineShape& shape, int columns = 120) {
  return sketch_pipeline(shape, chart_timing(name, shape), columns);
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(PipelineSketch, HasARowForEachStageWithItsPassesInTime) {
  const std::string chart = sketch("1f1b", {2, 1, 2});
  EXPECT_EQ(chart.substr(0, chart.find("3>  forward")),
            "time     0         5         in flight\n"
            "stage 0  0>1>....0<<<..1<<<  2\n"
            "stage 1  ..0>0<<<1>1<<<....  1\n");
}

TEST(PipelineSketch, HasARowForEachPartOfAStageAndDotsOnlyWhereTheStageWaits) {
  const std::string chart = sketch("interleaved", {2, 2, 2});
  EXPECT_EQ(chart.substr(chart.find("stage 0"), chart.find("3>  forward") - chart.find("stage 0")),
            "stage 0 part 0  0>1>    ....    ..    0<<<1<<<  4\n"
            "stage 0 part 2      0>1>....0<<<..1<<<\n"
            "stage 1 part 1  ..0>1>            0<<<1<<<....  3\n"
            "stage 1 part 3  ..    0>0<<<1>1<<<        ....\n");
}

TEST(PipelineSketch, ShrinksBoxesBeforeItLeavesAnythingOut) {
  const std::string chart = sketch("1f1b", {4, 1, 8}, 60);
  EXPECT_TRUE(has(chart, "stage 0  0123......0<41<52<63<7")) << chart;
  EXPECT_FALSE(has(chart, "shown:")) << chart;
}

TEST(PipelineSketch, OfAHugePipelineIsShortAndSaysSo) {
  const std::string chart = sketch("sequential", {1024, 1, 100});
  EXPECT_LT(std::count(chart.begin(), chart.end(), '\n'), 60);
  EXPECT_LE(chart.find('\n'), 120U);
  EXPECT_TRUE(has(chart, "shown: 48 of 1024 stages")) << chart;
  EXPECT_TRUE(has(chart, "of 3.072e+05")) << chart;
}

TEST(PipelineSketch, OfPassesWithoutTimeSaysThatThereIsNothingToDraw) {
  const PipelineShape shape{2, 1, 2};
  EXPECT_TRUE(
      has(sketch_pipeline(shape, chart_timing("gpipe", shape, 0, 0), 80), "nothing to draw"));
  expect_bad_input([&] { draw_pipeline(shape, chart_timing("gpipe", shape, 0, 0), "gpipe", ""); },
                   {"nothing to draw"});
}

TEST(PipelineDrawing, HasANumberedBoxForEveryPass) {
  const PipelineShape shape{4, 1, 8};
  const std::string svg =
      draw_pipeline(shape, chart_timing("1f1b", shape), "1f1b", "forward 1, backward 2");
  EXPECT_EQ(count(svg, "<title>forward of part"), 32U);
  EXPECT_EQ(count(svg, "<title>backward of part"), 32U);
  EXPECT_EQ(count(svg, ">7</text>"), 8U);
  EXPECT_EQ(count(svg, ">forward 1, backward 2</text>"), 1U);
}

TEST(PipelineDrawing, IsNeverTooWideToOpen) {
  const PipelineShape shape{2, 1, 300};
  const std::string svg = draw_pipeline(shape, chart_timing("gpipe", shape, 1e-9, 1), "gpipe", "");
  EXPECT_TRUE(has(svg, "width=\"8184\"")) << svg.substr(0, 200);
}

TEST(TimeAxis, HasMarksAtRoundDistances) {
  EXPECT_EQ(tick_step(1), 1);
  EXPECT_EQ(tick_step(1.1), 2);
  EXPECT_EQ(tick_step(3), 5);
  EXPECT_EQ(tick_step(70), 100);
  EXPECT_DOUBLE_EQ(tick_step(0.03), 0.05);
}

}  // namespace
}  // namespace lockstep::sim
