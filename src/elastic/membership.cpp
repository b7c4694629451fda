#include "elastic/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::elastic {
namespace {

// Give up after this many losses in a row without a finished step in between.
constexpr int kMostLossesInVain = 10;

std::optional<std::string> objection(const Facts& jobs, const Facts& theirs) {
  const auto difference = first_difference(jobs, theirs);
  if (!difference) return std::nullopt;
  const auto& [name, value] = difference->ours;
  const auto& [their_name, their_value] = difference->theirs;
  if (name != their_name) return "it runs another version of Lockstep";
  return fmt::format("the job has {} {}, this worker has {}", name, value, their_value);
}

}  // namespace

std::optional<std::string> Membership::admit(MemberId id, const Hello& hello, const Seat& place) {
  if (over_ || stops_) return "the job is ending";
  if (auto other = objection(limits_.facts, hello.facts)) return other;
  if (!place.here && count() >= std::max(wanted_, limits_.most))
    return fmt::format("the job already has {} workers; see --max-workers", count());
  members_[id] = {.hello = hello, .place = place, .rank = {}};
  if (!place.here) wanted_ = std::max(wanted_, count());
  return std::nullopt;
}

void Membership::ready(MemberId id, const Ready& ready) {
  const auto found = members_.find(id);
  if (found == members_.end() || ready.generation != generation_) return;
  found->second.rank.reset();
  step_ = std::max(step_, ready.step);
  if (ready.why.empty() || lost_somebody_) return;
  lost_somebody_ = true;
  whom_ = ready.why;
}

void Membership::beat(MemberId id, int64_t step) {
  if (members_.contains(id)) step_ = std::max(step_, step);
}

void Membership::bye(MemberId id) {
  const auto found = members_.find(id);
  if (found == members_.end()) return;
  if (found->second.rank) over_ = true;
  members_.erase(found);
}

void Membership::resign(MemberId id) {
  if (const auto found = members_.find(id); found != members_.end()) found->second.resigned = true;
}

void Membership::failed(MemberId id, const Fail& fail) {
  const auto found = members_.find(id);
  if (found == members_.end()) return;
  if (!over_) {
    failure_ = fail.why;
    exit_code_ = fail.exit_code;
  }
  over_ = true;
  members_.erase(found);
}

void Membership::lost(MemberId id) {
  const auto found = members_.find(id);
  if (found == members_.end()) return;
  if (found->second.rank) {
    if (!lost_somebody_) whom_ = name(found->second);
    lost_somebody_ = true;
  }
  members_.erase(found);
  patience_ = Deadline::in(limits_.patience_seconds);
}

std::optional<std::string> Membership::want(int workers) {
  if (over_ || stops_) return "the job is ending";
  if (workers < limits_.least || workers > limits_.most)
    return fmt::format("--set {}: expected {} to {} workers (--min-workers, --max-workers)",
                       workers, limits_.least, limits_.most);
  const auto guests = std::count_if(members_.begin(), members_.end(),
                                    [](const auto& entry) { return !entry.second.place.here; });
  places_here_ = std::max(1, workers - static_cast<int>(guests));
  wanted_ = workers;
  patience_ = Deadline::in(limits_.patience_seconds);
  return std::nullopt;
}

std::vector<Order> Membership::orders() {
  std::vector<Order> orders;
  if (over_) {
    end(failure_, orders);
    return orders;
  }
  if (in_generation()) {
    order_to_leave(orders);
    return orders;
  }
  if (generation_ > 0 && std::exchange(lost_somebody_, false)) {
    losses_in_vain_ = step_ > step_at_loss_ ? 1 : losses_in_vain_ + 1;
    step_at_loss_ = step_;
    if (losses_in_vain_ >= kMostLossesInVain)
      end(fmt::format(
              "workers were lost {} times in a row without a finished step; the last one: {}",
              losses_in_vain_, whom_),
          orders);
    if (over_) return orders;
  }
  dismiss_who_is_too_many(orders);
  if (stops_ && generation_ == 0)
    end("", orders);
  else if (stops_ && anyone_here())
    begin_generation(true, orders);
  else if (count() >= needed() && anyone_here())
    begin_generation(false, orders);
  else if (patience_.passed() && generation_ > 0 && anyone_here()) {
    gave_up_ = true;
    begin_generation(true, orders);
  } else if (patience_.passed())
    end(fmt::format("{} workers are needed, but only {} joined within {:g} s", needed(), count(),
                    limits_.patience_seconds),
        orders);
  return orders;
}

std::string Membership::shortage() const {
  if (over_ || in_generation() || (count() >= needed() && anyone_here())) return "";
  return fmt::format("{} of {} workers", count(), needed());
}

bool Membership::in_generation() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const auto& entry) { return entry.second.rank.has_value(); });
}

bool Membership::anyone_here() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const auto& entry) { return entry.second.place.here.has_value(); });
}

void Membership::end(const std::string& why, std::vector<Order>& orders) {
  over_ = true;
  if (!why.empty() && exit_code_ == 0) exit_code_ = 1;
  failure_ = why;
  for (auto member = members_.begin(); member != members_.end();) {
    // Members of a running generation end with it, unless the job has failed.
    if (why.empty() && member->second.rank) {
      ++member;
      continue;
    }
    orders.push_back({member->first, Dismiss{.refused = false, .why = why}});
    member = members_.erase(member);
  }
}

// Orders members to leave their generation if it lost a worker, or if workers wait to join or
// leave.
void Membership::order_to_leave(std::vector<Order>& orders) {
  const bool changes = std::any_of(members_.begin(), members_.end(), [](const auto& entry) {
    return !entry.second.rank || entry.second.resigned;
  });
  const bool stops = stops_ && !is_last_;
  if (!lost_somebody_ && !changes && !stops && count() <= wanted_) return;
  for (auto& [id, member] : members_) {
    if (!member.rank || (lost_somebody_ ? member.told_at_once : member.told_to_leave)) continue;
    member.told_to_leave = true;
    member.told_at_once = lost_somebody_;
    orders.push_back({id, Leave{generation_, lost_somebody_, whom_}});
  }
}

// First members that resigned, then those with the highest ranks.
void Membership::dismiss_who_is_too_many(std::vector<Order>& orders) {
  for (const MemberId id : by_rank()) {
    if (!members_.at(id).resigned) continue;
    orders.push_back({id, Dismiss{.refused = false, .why = ""}});
    members_.erase(id);
  }
  std::vector<MemberId> ranks = by_rank();
  while (static_cast<int>(ranks.size()) > wanted_) {
    orders.push_back({ranks.back(), Dismiss{.refused = false, .why = ""}});
    members_.erase(ranks.back());
    ranks.pop_back();
  }
}

void Membership::begin_generation(bool last, std::vector<Order>& orders) {
  ++generation_;
  is_last_ = last;
  const std::string why = std::exchange(whom_, {});
  int rank = 0;
  const int world = count();
  for (const MemberId id : by_rank()) {
    MemberState& member = members_.at(id);
    member.rank = rank++;
    member.told_to_leave = member.told_at_once = false;
    orders.push_back({id, Go{.generation = generation_,
                             .rank = *member.rank,
                             .world = world,
                             .last = last,
                             .why = why}});
  }
}

// Workers of this host first, by place; then the others in the order in which they connected.
std::vector<MemberId> Membership::by_rank() const {
  std::vector<MemberId> ids;
  for (const auto& [id, member] : members_) ids.push_back(id);
  std::stable_sort(ids.begin(), ids.end(), [&](MemberId a, MemberId b) {
    const std::optional<int> place_a = members_.at(a).place.here;
    const std::optional<int> place_b = members_.at(b).place.here;
    if (place_a && place_b) return *place_a < *place_b;
    return place_a.has_value() && !place_b.has_value();
  });
  return ids;
}

std::string Membership::name(const MemberState& member) const {
  const std::string who = fmt::format("{}, pid {}", member.hello.host, member.hello.pid);
  return member.rank ? fmt::format("rank {} ({})", *member.rank, who) : who;
}

std::string Membership::text() const {
  std::string lines;
  for (const MemberId id : by_rank()) {
    const MemberState& member = members_.at(id);
    lines += name(member) + (member.rank ? "\n" : ", waiting\n");
  }
  return lines;
}

}  // namespace lockstep::elastic
