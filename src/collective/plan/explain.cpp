#include "collective/plan/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace lockstep::collective {
namespace {

constexpr int kLeft = 70;
constexpr int kTop = 56;
constexpr int kRoundWidth = 110;
constexpr int kRankHeight = 44;
constexpr int kMostRanks = 16;  // in a sketch
constexpr size_t kMostColumns = 100;

// Whether the receiver of what arrives in `slot` folds it in this round.
bool is_folded(const Round& receiver, Slot slot) {
  const auto touches = [&](const SlotFold& fold) { return fold.from == slot || fold.into == slot; };
  return slot != kBucket && std::any_of(receiver.folds.begin(), receiver.folds.end(), touches);
}

// What the receiver does with what arrives in `slot`: takes it as the result, folds it in this
// round, or keeps it for a later one.
const char* fate(const Round& receiver, Slot slot) {
  if (slot == kBucket) return "taken over";
  return is_folded(receiver, slot) ? "added" : "kept";
}

std::string arrow(int round, const Receive& message, int receiver, const char* what) {
  const int x1 = kLeft + round * kRoundWidth + 14;
  const int x2 = x1 + kRoundWidth - 34;
  const int y1 = kTop + message.peer * kRankHeight;
  const int y2 = kTop + receiver * kRankHeight;
  const bool added = message.slot != kBucket;
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

// {1, 2, 3, 5, 5} -> "1-3,5".
std::string join(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text +=
        end - i == 1 ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[end - 1]);
    i = end;
  }
  return text;
}

std::string cell(const Round& round) {
  std::vector<int> to, added, taken;
  for (const Send& send : round.sends) to.push_back(send.peer);
  for (const Receive& receive : round.receives)
    (is_folded(round, receive.slot) ? added : taken).push_back(receive.peer);
  std::string text;
  const auto append = [&](const char* sign, const std::vector<int>& ranks) {
    if (!ranks.empty()) text += fmt::format("{}{}{}", text.empty() ? "" : " ", sign, join(ranks));
  };
  append("->", to);
  append("<+", added);
  append("<-", taken);
  return text.empty() ? "." : text;
}

std::string left_out(const Plan& plan, int ranks, int rounds) {
  if (ranks == plan.world && rounds == plan.rounds) return "";
  return fmt::format("shown: {} of {} rounds, {} of {} ranks\n", rounds, plan.rounds, ranks,
                     plan.world);
}

}  // namespace

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

std::string sketch_rounds(const Plan& plan) {
  if (plan.rounds == 0) return "no rounds: a single rank has the sum already\n";
  const int ranks = std::min(plan.world, kMostRanks);
  std::vector<std::string> lines = {"round"};
  for (int rank = 0; rank < ranks; ++rank) lines.push_back(fmt::format("rank {}", rank));
  const auto widest = [](const std::vector<std::string>& texts) {
    size_t width = 0;
    for (const std::string& text : texts) width = std::max(width, text.size());
    return width;
  };
  int rounds = 0;
  for (; rounds < plan.rounds; ++rounds) {
    std::vector<std::string> column = {fmt::format("{}", rounds + 1)};
    for (int rank = 0; rank < ranks; ++rank) column.push_back(cell(plan.round(rank, rounds)));
    const size_t indent = widest(lines) + 2;
    if (rounds > 0 && indent + widest(column) > kMostColumns) break;
    for (size_t i = 0; i < lines.size(); ++i)
      lines[i] = fmt::format("{:<{}}{}", lines[i], indent, column[i]);
  }
  return fmt::format(
      "{}\n{}->1 sends to rank 1; <+1 receives from it and adds; <-1 receives and "
      "keeps\n",
      fmt::join(lines, "\n"), left_out(plan, ranks, rounds));
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
