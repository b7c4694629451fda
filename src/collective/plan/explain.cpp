#include "collective/plan/explain.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::collective {
namespace {

constexpr int kLeft = 70;
constexpr int kTop = 56;
constexpr int kRoundWidth = 110;
constexpr int kRankHeight = 44;

// What the receiver does with what arrives in `slot`: folds it in this round, keeps it for a later
// one, or takes it as the result.
const char* fate(const Round& receiver, Slot slot) {
  if (slot == kBucket) return "taken over";
  const bool folded =
      std::any_of(receiver.folds.begin(), receiver.folds.end(),
                  [&](const Fold& fold) { return fold.from == slot || fold.into == slot; });
  return folded ? "added" : "kept";
}

std::string arrow(int round, const Receive& message, int receiver, const char* what) {
  const int x1 = kLeft + round * kRoundWidth + 14;
  const int x2 = x1 + kRoundWidth - 34;
  const int y1 = kTop + message.peer * kRankHeight;
  const int y2 = kTop + receiver * kRankHeight;
  const bool added = std::string_view(what) != "taken over";
  return fmt::format(
      "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"1.6\" "
      "marker-end=\"url(#{})\"><title>{} to {}: elements {}-{}, {}</title></line>\n",
      x1, y1, x2, y2, added ? "#2563a8" : "#3a8f5c", added ? "add" : "take", message.peer, receiver,
      message.range.begin, message.range.end - 1, what);
}

std::string marker(const char* name, const char* colour) {
  return fmt::format(
      "<marker id=\"{}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
      "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\" fill=\"{}\"/></marker>",
      name, colour);
}

}  // namespace

std::string formula(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::one_to_all:
      return "2 (n-1) (latency + size/bandwidth)";
    case Algorithm::tree:
      return "2 log2(n) (latency + size/bandwidth)";
    case Algorithm::butterfly:
      return "log2(n) (latency + size/bandwidth)";
    case Algorithm::ring:
      return "2 (n-1) (latency + size/n/bandwidth)";
    case Algorithm::halving_doubling:
      return "2 log2(n) latency + 2 (n-1)/n size/bandwidth";
    case Algorithm::direct:
      return "2 latency + 2 (n-1)/n size/bandwidth";
    case Algorithm::engine:
      return "whatever the transport does";
  }
  return "";
}

std::string list_rounds(const Plan& plan) {
  std::string text;
  for (int index = 0; index < plan.rounds; ++index)
    for (int rank = 0; rank < plan.world; ++rank) {
      const Round round = plan.round(rank, index);
      for (const Receive& message : round.receives)
        text += fmt::format("round {:<3} {:>3} -> {:<3} elements {}-{}, {}\n", index + 1,
                            message.peer, rank, message.range.begin, message.range.end - 1,
                            fate(round, message.slot));
    }
  return text;
}

std::string draw_rounds(const Plan& plan, const std::string& title) {
  const int width = kLeft + plan.rounds * kRoundWidth + 30;
  const int height = kTop + plan.world * kRankHeight + 12;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"sans-serif\" font-size=\"12\">\n<defs>{2}{3}</defs>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
      "<text x=\"12\" y=\"18\" font-size=\"14\" fill=\"#222\">{4}</text>\n",
      std::max(width, 460), height, marker("add", "#2563a8"), marker("take", "#3a8f5c"), title);
  for (int index = 0; index < plan.rounds; ++index)
    svg += fmt::format("<text x=\"{}\" y=\"40\" fill=\"#666\" text-anchor=\"middle\">{}</text>\n",
                       kLeft + index * kRoundWidth + kRoundWidth / 2, index + 1);
  for (int rank = 0; rank < plan.world; ++rank) {
    const int y = kTop + rank * kRankHeight;
    svg += fmt::format(
        "<text x=\"12\" y=\"{}\" fill=\"#222\">rank {}</text><line x1=\"{}\" y1=\"{}\" x2=\"{}\" "
        "y2=\"{}\" stroke=\"#ccc\"/>\n",
        y + 4, rank, kLeft, y, width - 20, y);
  }
  for (int index = 0; index < plan.rounds; ++index)
    for (int rank = 0; rank < plan.world; ++rank) {
      const Round round = plan.round(rank, index);
      for (const Receive& message : round.receives)
        svg += arrow(index, message, rank, fate(round, message.slot));
    }
  svg += fmt::format(
      "<text x=\"12\" y=\"{}\" fill=\"#2563a8\">added by the receiver</text>"
      "<text x=\"160\" y=\"{}\" fill=\"#3a8f5c\">taken over as the result</text>\n",
      height - 8, height - 8);
  return svg + "</svg>\n";
}

}  // namespace lockstep::collective
