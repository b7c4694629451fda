#include "collective/plan/sketch.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace lockstep::collective {
namespace {

constexpr int kMostRanks = 16;
constexpr size_t kMostColumns = 100;

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

bool is_folded(const Round& round, Slot slot) {
  return slot != kBucket && std::any_of(round.folds.begin(), round.folds.end(), [&](const Fold& f) {
           return f.from == slot || f.into == slot;
         });
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

std::string sketch_rounds(const Plan& plan) {
  if (plan.rounds == 0) return "no rounds: a rank alone has the sum already\n";
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

}  // namespace lockstep::collective
