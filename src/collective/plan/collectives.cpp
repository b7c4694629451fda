#include "collective/plan/collectives.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest.h"
#include "lockstep/error.h"

namespace lockstep::collective {
namespace {

void check(const Request& request) {
  const std::string& name = collective_names()[static_cast<size_t>(request.collective)];
  const int world = request.shards.world_size();
  const auto is_rank = [&](int rank) { return rank >= 0 && rank < world; };
  if (request.count < 0)
    throw BadInput("{} of {} elements: expected at least 0", name, request.count);
  if (request.collective == Collective::all_to_all && request.count % world != 0)
    throw BadInput("{} of {} elements: expected a multiple of {} ranks", name, request.count,
                   world);
  if (has_root(request.collective) && !is_rank(request.root))
    throw BadInput("{}: root {}: no such rank; expected 0 to {}", name, request.root, world - 1);
  const bool between_ranks = is_rank(request.root) && is_rank(request.peer);
  if (request.collective == Collective::send_receive && !between_ranks)
    throw BadInput("{} from rank {} to rank {}: expected ranks 0 to {}", name, request.root,
                   request.peer, world - 1);
}

}  // namespace

bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

const std::vector<std::string>& collective_names() {
  static const std::vector<std::string> names = {
      "all_reduce", "broadcast", "reduce",       "all_gather", "reduce_scatter", "gather",
      "scatter",    "barrier",   "send_receive", "all_to_all", "exchange"};
  return names;
}

Collective parse_collective(const std::string& name) {
  const auto& names = collective_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw BadInput("collective '{}': no such collective{}; there are: {}", name,
                   did_you_mean(name, names), fmt::join(names, ", "));
  return static_cast<Collective>(found - names.begin());
}

Plan plan_of(const Request& request) {
  check(request);
  const int world = request.shards.world_size();
  const int64_t count = request.count;
  switch (request.collective) {
    case Collective::all_reduce:
      return all_reduce(request.algorithm, request.shards, count);
    case Collective::broadcast:
      return broadcast(world, count, request.root, request.broadcast_by);
    case Collective::reduce:
      return reduce(request.shards, count, request.root);
    case Collective::all_gather:
      return all_gather(world, count);
    case Collective::reduce_scatter:
      return reduce_scatter(request.shards, count);
    case Collective::gather:
      return gather(world, count, request.root);
    case Collective::scatter:
      return scatter(world, count, request.root);
    case Collective::barrier:
      return barrier(world);
    case Collective::send_receive:
      return send_receive(world, count, request.root, request.peer);
    case Collective::all_to_all:
      return all_to_all(world, count);
    case Collective::exchange:
      throw BadInput("exchange has no plan: each rank chooses its partners");
  }
  throw Error("no such collective");
}

}  // namespace lockstep::collective
