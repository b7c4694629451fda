// All-reduce inside hosts, between their *leaders* (the first rank of each), and inside again.
//
// A *host term* is the sum over a largest node of the shard tree inside the range of shards that
// the host's ranks own together. Round 0: every rank of a host folds its slice of the host's terms.
// Round 1: it sends that slice to the leader, which then has the host terms, as if it had owned all
// of the host's shards. Then the leaders all-reduce, and each sends the result to its host's ranks.
//
// A host term's sum is in the slot that fold_terms returns; on the leader the first one is in the
// bucket, because the bucket is the first of the host's terms.
#include "collective/plan/two_level.h"

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "base/range.h"
#include "lockstep/error.h"

namespace lockstep::collective {
namespace {

struct Hosts {
  std::vector<RankRange> groups;  // by host
  std::vector<size_t> host_of;    // by rank
  Shards shards;                  // a host as one rank
  Shards shards_of_ranks;
  int64_t count;

  const RankRange& group_of(int rank) const { return groups[host_of[static_cast<size_t>(rank)]]; }
  const std::vector<Term>& terms_of(int rank) const {
    return shards.terms_of(static_cast<int>(host_of[static_cast<size_t>(rank)]));
  }
  Range slice_of(int rank) const {
    return slice(count, group_of(rank).size(), rank - group_of(rank).first);
  }
};

std::vector<RankRange> groups_of(const std::vector<int>& host_of_rank) {
  std::vector<RankRange> groups;
  std::set<int> seen;
  for (int rank = 0; rank < static_cast<int>(host_of_rank.size()); ++rank) {
    const int host = host_of_rank[static_cast<size_t>(rank)];
    if (rank > 0 && host == host_of_rank[static_cast<size_t>(rank) - 1]) {
      ++groups.back().last;
      continue;
    }
    if (!seen.insert(host).second)
      throw BadInput(
          "rank {} is on the host of rank {}, but rank {} between them is not: give the ranks of a "
          "host consecutive numbers",
          rank, std::find(host_of_rank.begin(), host_of_rank.end(), host) - host_of_rank.begin(),
          rank - 1);
    groups.push_back({rank, rank + 1});
  }
  return groups;
}

Hosts hosts_of(const std::vector<int>& host_of_rank, const Shards& shards, int64_t count) {
  if (static_cast<int>(host_of_rank.size()) != shards.world_size())
    throw BadInput("the hosts of {} ranks are given, but {} ranks own the shards",
                   host_of_rank.size(), shards.world_size());
  std::vector<RankRange> groups = groups_of(host_of_rank);
  std::vector<size_t> host_of;
  std::vector<int64_t> bounds = {0};
  for (size_t host = 0; host < groups.size(); ++host) {
    host_of.insert(host_of.end(), static_cast<size_t>(groups[host].size()), host);
    bounds.push_back(shards.bounds()[static_cast<size_t>(groups[host].last)]);
  }
  return {std::move(groups), std::move(host_of), Shards(std::move(bounds)), shards, count};
}

// Folds `rank`'s slice of each term of its host; returns where they then are, by term.
std::vector<Slot> fold_host_terms(const Hosts& hosts, int rank, Round& round) {
  const auto placed = place_terms(hosts.shards_of_ranks, hosts.group_of(rank), rank);
  std::vector<Slot> slots;
  auto begin = placed.begin();
  for (const Term& term : hosts.terms_of(rank)) {
    const auto end = std::find_if(begin, placed.end(), [&](const Placed& placed_term) {
      return placed_term.term.begin >= term.end;
    });
    slots.push_back(fold_terms(round, {begin, end}, hosts.slice_of(rank)));
    begin = end;
  }
  return slots;
}

std::vector<Slot> host_term_slots(const Hosts& hosts, int rank) {
  Round unused;
  return fold_host_terms(hosts, rank, unused);
}

// Rounds 0 and 1, of a host with several ranks.
Round towards_leader(const Hosts& hosts, int rank, int index) {
  const RankRange& group = hosts.group_of(rank);
  if (index == 0) {
    Round round = exchange_slices(hosts.shards_of_ranks, group, rank, hosts.count);
    fold_host_terms(hosts, rank, round);
    return round;
  }
  Round round;
  for (const Slot slot : host_term_slots(hosts, rank)) {
    if (rank != group.first) round.send(group.first, slot, hosts.slice_of(rank));
    for (int peer = group.first + 1; rank == group.first && peer < group.last; ++peer)
      round.receive(peer, slot, hosts.slice_of(peer));
  }
  return round;
}

Round from_leader(const Hosts& hosts, int rank) {
  const RankRange& group = hosts.group_of(rank);
  Round round;
  if (rank != group.first) round.receive(group.first, kBucket, {0, hosts.count});
  for (int peer = group.first + 1; rank == group.first && peer < group.last; ++peer)
    round.send(peer, kBucket, {0, hosts.count});
  return round;
}

// Slots of a leader: first those of the terms of the host's ranks, then those of the leaders' plan.
int terms_on(const Hosts& hosts, int rank) {
  const RankRange& group = hosts.group_of(rank);
  return static_cast<int>(place_terms(hosts.shards_of_ranks, group, rank).size());
}

// From the leaders' plan, which is in terms of hosts and host terms, to ranks and their slots.
Round translate(const Hosts& hosts, int leader, Round round) {
  const std::vector<Slot> terms = host_term_slots(hosts, leader);
  const int scratch = terms_on(hosts, leader) - static_cast<int>(terms.size());
  const auto slot = [&](Slot old) {
    return old < static_cast<int>(terms.size()) ? terms[static_cast<size_t>(old)] : scratch + old;
  };
  const auto rank = [&](int host) { return hosts.groups[static_cast<size_t>(host)].first; };
  for (Send& send : round.sends) send = {rank(send.peer), slot(send.slot), send.range};
  for (Receive& receive : round.receives)
    receive = {rank(receive.peer), slot(receive.slot), receive.range};
  for (SlotFold& fold : round.folds) fold = {slot(fold.into), slot(fold.from), fold.range};
  return round;
}

Plan among_leaders(const std::shared_ptr<const Hosts>& hosts, Algorithm algorithm) {
  const Plan leaders = all_reduce(algorithm, hosts->shards, hosts->count);
  int most_terms = 0;
  for (const RankRange& group : hosts->groups)
    most_terms = std::max(most_terms, terms_on(*hosts, group.first));
  const auto round = [=](int rank, int index) {
    if (rank != hosts->group_of(rank).first) return Round{};
    const auto host = static_cast<int>(hosts->host_of[static_cast<size_t>(rank)]);
    return translate(*hosts, rank, leaders.round(host, index));
  };
  return {static_cast<int>(hosts->host_of.size()), hosts->count, leaders.rounds,
          most_terms + leaders.slots, round};
}

}  // namespace

Plan two_level(const std::vector<int>& host_of_rank, Algorithm between_leaders,
               const Shards& shards, int64_t count) {
  const auto hosts = std::make_shared<const Hosts>(hosts_of(host_of_rank, shards, count));
  const int world = shards.world_size();
  // One host, or one rank a host, is one level only.
  if (hosts->groups.size() == 1 || static_cast<int>(hosts->groups.size()) == world)
    return all_reduce(between_leaders, shards, count);
  const auto several = [hosts](int rank) { return hosts->group_of(rank).size() > 1; };
  const Plan up{world, count, 2, 1, [=](int rank, int index) {
                  return several(rank) ? towards_leader(*hosts, rank, index) : Round{};
                }};
  const Plan down{world, count, 1, 1, [=](int rank, int) { return from_leader(*hosts, rank); }};
  return sequence(sequence(up, among_leaders(hosts, between_leaders)), down);
}

}  // namespace lockstep::collective
