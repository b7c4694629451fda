#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "lab/dp_vs_ddp.h"

namespace lockstep::lab {
namespace {

std::string milliseconds(double seconds) {
  return fmt::format("{:.2f} ms", 1e3 * seconds);
}

std::string about_speed(const DpVsDdpRow& dp, const DpVsDdpRow& ddp) {
  const bool ddp_wins = ddp.seconds_per_step <= dp.seconds_per_step;
  const DpVsDdpRow &winner = ddp_wins ? ddp : dp, &other = ddp_wins ? dp : ddp;
  return fmt::format(
      "On {} {} is {:.2f} times as fast as {}: a step takes {} instead of {}. Compared with one "
      "device, {} is {:.2f} times as fast and {} {:.2f} times.",
      plural(dp.devices, "device"), name_of(winner.way),
      other.seconds_per_step / winner.seconds_per_step, name_of(other.way),
      milliseconds(winner.seconds_per_step), milliseconds(other.seconds_per_step),
      name_of(winner.way), winner.speedup, name_of(other.way), other.speedup);
}

// Of rows whose figures cannot be, because other programs had the processors in some runs.
std::vector<std::string> about_doubts(const std::vector<DpVsDdpRow>& rows) {
  std::vector<std::string> sentences;
  for (const DpVsDdpRow& row : rows)
    if (!row.is_credible())
      sentences.push_back(fmt::format(
          "! An efficiency of {:.0f} % ({} on {}) is not credible: this host was busy while one "
          "device was measured, and times are rough; measure again, with more --rounds.",
          100 * row.efficiency, name_of(row.way), plural(row.devices, "device")));
  return sentences;
}

std::string about_bytes(const DpVsDdpRow& dp, const DpVsDdpRow& ddp) {
  const std::string buffers =
      dp.gathered > 0 ? fmt::format(" and {} of buffers", format_bytes(dp.gathered)) : "";
  return fmt::format(
      "In a step DataParallel copies {} of parameters and buffers and {} of samples to the other "
      "devices, and {} of gradients{} back: {} in all, every byte through the first device; a "
      "device of DDP moves {}. Compute waits for this {:.0f} % of the time with DataParallel, "
      "where nothing overlaps, and {:.0f} % with DDP.",
      format_bytes(dp.replicated), format_bytes(dp.scattered), format_bytes(dp.gradients), buffers,
      format_bytes(dp.moved()), format_bytes(ddp.first_moves), 100 * dp.waiting, 100 * ddp.waiting);
}

std::string about_memory(const DpVsDdpRow& dp, const DpVsDdpRow& ddp) {
  return fmt::format(
      "The first device of DataParallel has the optimizer, the sums of gradients and the whole "
      "batch: {} at the peak, the others {}; with DDP it is {}.",
      format_bytes(dp.first_peak), format_bytes(dp.other_peak),
      format_bytes(std::max(ddp.first_peak, ddp.other_peak)));
}

}  // namespace

std::vector<std::string> conclusions(const std::vector<DpVsDdpRow>& rows) {
  const DpVsDdpRow *dp = nullptr, *ddp = nullptr;
  // Of the most devices that have processors of their own, or else of the fewest.
  for (const DpVsDdpRow& row : rows) {
    if (row.way == DataWay::one_device) continue;
    const DpVsDdpRow*& chosen = row.way == DataWay::dp ? dp : ddp;
    if (chosen == nullptr || !row.shares_cores) chosen = &row;
  }
  if (dp == nullptr || ddp == nullptr) return {};
  std::vector<std::string> sentences = {about_speed(*dp, *ddp), about_bytes(*dp, *ddp)};
  for (std::string& doubt : about_doubts(rows)) sentences.push_back(std::move(doubt));
  if (dp->first_peak > 0) sentences.push_back(about_memory(*dp, *ddp));
  return sentences;
}

}  // namespace lockstep::lab
