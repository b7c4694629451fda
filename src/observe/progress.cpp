#include "observe/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/units.h"

namespace lockstep::observe {
namespace {

constexpr double kLiveSeconds = 0.1;
constexpr double kPlainSeconds = 5;

size_t terminal_width(std::FILE* out) {
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 120;
}

}  // namespace

Progress::Progress(std::FILE* out)
    : out_(out), style_(isatty(fileno(out)) != 0 ? Style::live : Style::plain) {}

void Progress::show(const Json& event) {
  const std::string kind = event.value("event", "");
  if (kind == "step") return show_step(event);
  if (kind == "start")
    print(fmt::format("{} on {}: {} samples, batch {}, {} parameters", event.value("model", ""),
                      event.value("data", ""), format_count(event.value("train_samples", 0)),
                      event.value("batch", 0), format_count(event.value("parameters", 0))));
  if (kind == "resume")
    print(fmt::format("resuming at step {} from {}", format_count(event.value("step", 0)),
                      event.value("checkpoint", "")));
  if (kind == "epoch")
    print(fmt::format("epoch {}: train loss {:.4f}, test loss {:.4f}, test accuracy {:.2f} %",
                      event.value("epoch", 0), event.value("train_loss", 0.0),
                      event.value("test_loss", 0.0), 100 * event.value("test_accuracy", 0.0)));
  if (kind == "warning") print("warning: " + event.value("message", ""));
  if (kind == "stopped")
    print(fmt::format("stopped at step {}; continue with --resume",
                      format_count(event.value("step", 0))));
}

void Progress::show_step(const Json& event) {
  const double pause = style_ == Style::live ? kLiveSeconds : kPlainSeconds;
  if (anything_shown_ && since_shown_.seconds() < pause) return;
  anything_shown_ = true;
  since_shown_.restart();
  std::string line = describe_step(event);
  if (style_ == Style::plain) return print(line);
  line.resize(std::min(line.size(), terminal_width(out_) - 1));
  fmt::print(out_, "\r\033[K{}", line);
  std::fflush(out_);
  line_open_ = true;
}

void Progress::print(const std::string& line) {
  fmt::print(out_, "{}{}\n", line_open_ ? "\r\033[K" : "", line);
  std::fflush(out_);
  line_open_ = false;
}

std::string describe_step(const Json& event) {
  return fmt::format(
      "epoch {}/{}  step {}/{}  loss {:.4f}  accuracy {:.1f} %  lr {:.4g}  {} samples/s  {} left",
      event.value("epoch", 0), event.value("epochs", 0), format_count(event.value("step", 0)),
      format_count(event.value("steps", 0)), event.value("loss", 0.0),
      100 * event.value("accuracy", 0.0), event.value("lr", 0.0),
      format_count(static_cast<int64_t>(event.value("samples_per_second", 0.0))),
      format_duration(event.value("seconds_left", 0.0)));
}

}  // namespace lockstep::observe
