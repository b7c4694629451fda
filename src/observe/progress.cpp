#include "observe/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/units.h"

namespace lockstep::observe {
namespace {

constexpr double kLiveSeconds = 0.1;
constexpr double kPlainSeconds = 5;

size_t terminal_width(std::FILE* out) {
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 120;
}

// "54,000 + 10,000", or "48,600 + 5,400 validation + 10,000 test".
std::string describe_samples(const Json& event) {
  const std::string train = format_count(event.value("train_samples", 0));
  const std::string test = format_count(event.value("test_samples", 0));
  const int64_t validation = event.value("validation_samples", 0);
  if (validation == 0) return fmt::format("{} + {}", train, test);
  return fmt::format("{} + {} validation + {} test", train, format_count(validation), test);
}

// "2 workers on 2 nodes over tcp, all-reduce ring; ", or nothing for one worker.
std::string describe_workers(const Json& event) {
  const int64_t workers = event.value("workers", 1);
  if (workers == 1) return "";
  const int64_t nodes = event.value("nodes", 1);
  return fmt::format("{}{} over {}, all-reduce {}; ", plural(workers, "worker"),
                     nodes == 1 ? "" : " on " + plural(nodes, "node"), event.value("transport", ""),
                     event.value("algorithm", ""));
}

std::string describe_other_workers(const Json& event) {
  const int64_t workers = event.value("workers", 1);
  const int64_t before = event.value("workers_before", workers);
  if (workers == before) return "";
  return fmt::format(", on {} ({} before: --resume does not restore --workers)",
                     plural(workers, "worker"), before);
}

// "accuracy 93.1 %", with `separator` between several.
std::string join_figures(const std::vector<std::pair<std::string, std::string>>& figures,
                         const std::string& separator) {
  std::string text;
  for (const auto& [name, value] : figures)
    text += fmt::format("{}{} {}", text.empty() ? "" : separator, name, value);
  return text;
}

// "worker lost: rank 1 (node7, pid 4711); ", or nothing.
std::string describe_loss(const Json& event) {
  return event.contains("lost") ? "worker lost: " + event.value("lost", "") + "; " : "";
}

}  // namespace

Progress::Progress(std::FILE* out, Json metrics)
    : out_(out),
      metrics_(std::move(metrics)),
      style_(isatty(fileno(out)) != 0 ? Style::live : Style::plain) {}

void Progress::show(const Json& event) {
  const std::string kind = event.value("event", "");
  if (kind == "step") return show_step(event);
  if (kind == "start")
    print(fmt::format("{} on {}: {} samples, batch {}, {} parameters; {}{}",
                      event.value("model", ""), event.value("data", ""), describe_samples(event),
                      event.value("batch", 0), format_count(event.value("parameters", 0)),
                      describe_workers(event), event.value("out", "")));
  if (kind == "resume")
    print(fmt::format("resuming at step {} from {}{}", format_count(event.value("step", 0)),
                      event.value("checkpoint", ""), describe_other_workers(event)));
  if (kind == "workers")
    print(fmt::format("{}continuing with {} from step {}", describe_loss(event),
                      plural(event.value("workers", 1), "worker"),
                      format_count(event.value("step", 0))));
  if (kind == "evaluate" && style_ == Style::live) redraw("evaluating");
  if (kind == "epoch") show_epoch(event);
  if (kind == "warning") print("warning: " + event.value("message", ""));
  if (kind == "stopped")
    print(fmt::format("stopped at step {}", format_count(event.value("step", 0))));
}

void Progress::show_epoch(const Json& event) {
  const std::string split = event.contains("validation_loss") ? "validation" : "test";
  const std::string figures = join_figures(describe_figures(event, metrics_, split, 2), ", ");
  print(fmt::format("after epoch {:g}: train loss {}, {} loss {}{}{}",
                    std::round(100 * event.value("epoch", 0.0)) / 100,
                    format_loss(event.value("train_loss", 0.0)), split,
                    format_loss(event.value(split + "_loss", 0.0)), figures.empty() ? "" : ", ",
                    figures));
}

void Progress::show_step(const Json& event) {
  const double pause = style_ == Style::live ? kLiveSeconds : kPlainSeconds;
  if (anything_shown_ && since_shown_.seconds() < pause) return;
  anything_shown_ = true;
  since_shown_.restart();
  if (style_ == Style::plain) return print(describe_step(event, metrics_, std::string::npos));
  redraw(describe_step(event, metrics_, terminal_width(out_) - 1));
}

void Progress::redraw(const std::string& line) {
  put("\r\033[K" + line);
  line_open_ = true;
}

void Progress::print(const std::string& line) {
  put(fmt::format("{}{}\n", line_open_ ? "\r\033[K" : "", line));
  line_open_ = false;
}

// Errors are ignored: training continues if the terminal is gone.
void Progress::put(const std::string& text) {
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
}

std::vector<std::pair<std::string, std::string>> describe_figures(const Json& event,
                                                                  const Json& metrics,
                                                                  const std::string& prefix,
                                                                  int digits) {
  std::vector<std::pair<std::string, std::string>> figures;
  for (const auto& [metric, print] : metrics.items()) {
    const std::string key = prefix.empty() ? metric : fmt::format("{}_{}", prefix, metric);
    if (!event.contains(key)) continue;
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', ' ');
    const auto value = event[key].get<double>();
    figures.emplace_back(name, print == "percent" ? fmt::format("{:.{}f} %", 100 * value, digits)
                                                  : fmt::format("{:.4g}", value));
  }
  return figures;
}

std::string describe_step(const Json& event, const Json& metrics, size_t width) {
  // In display order; on a narrow terminal the one with the lowest `leave_out` is dropped first.
  struct Figure {
    std::string text;
    int leave_out;
  };
  std::vector<Figure> fields = {
      {fmt::format("epoch {}/{}", event.value("epoch", 0), event.value("epochs", 0)), 4},
      {fmt::format("step {}/{}", format_count(event.value("step", 0)),
                   format_count(event.value("steps", 0))),
       5},
      {fmt::format("loss {}", format_loss(event.value("loss", 0.0))), 7},
      {join_figures(describe_figures(event, metrics, "", 1), "  "), 3},
      {fmt::format("lr {:.4g}", event.value("lr", 0.0)), 1},
      {fmt::format("{} samples/s",
                   format_count(static_cast<int64_t>(event.value("samples_per_second", 0.0)))),
       2},
      {fmt::format("{} left", format_duration(event.value("seconds_left", 0.0))), 6}};
  const auto join = [&] {
    std::string line;
    for (const Figure& field : fields)
      if (!field.text.empty()) line += (line.empty() ? "" : "  ") + field.text;
    return line;
  };
  const auto first_to_go = [](const Figure& a, const Figure& b) {
    return a.leave_out < b.leave_out;
  };
  while (fields.size() > 1 && join().size() > width)
    fields.erase(std::min_element(fields.begin(), fields.end(), first_to_go));
  return join();
}

}  // namespace lockstep::observe
