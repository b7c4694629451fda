#include "collective/plan/request.h"

#include <algorithm>

#include "base/nearest.h"
#include "collective/plan/all_gather.h"
#include "collective/plan/barrier.h"
#include "collective/plan/direct.h"
#include "collective/plan/gather.h"
#include "collective/plan/send_receive.h"
#include "collective/plan/tree.h"
#include "lockstep/error.h"

namespace lockstep::collective {
namespace {

Plan broadcast_as_asked(const Request& request) {
  switch (request.algorithm) {
    case Algorithm::one_to_all:
    case Algorithm::tree:
    case Algorithm::butterfly:
      return broadcast(request.shards.world_size(), request.count, request.root);
    case Algorithm::ring:
    case Algorithm::halving_doubling:
    case Algorithm::direct:
    case Algorithm::engine:
      return broadcast_slices(request.shards.world_size(), request.count, request.root);
  }
  throw Error("no such algorithm");
}

}  // namespace

const std::vector<std::string>& collective_names() {
  static const std::vector<std::string> names = {"all_reduce", "broadcast",      "reduce",
                                                 "all_gather", "reduce_scatter", "gather",
                                                 "scatter",    "barrier",        "send_receive"};
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
  const int world = request.shards.world_size();
  const int64_t count = request.count;
  if (count < 0)
    throw BadInput("{} of {} elements: expected at least 0",
                   collective_names()[static_cast<size_t>(request.collective)], count);
  switch (request.collective) {
    case Collective::all_reduce:
      return all_reduce(request.algorithm, request.shards, count);
    case Collective::broadcast:
      return broadcast_as_asked(request);
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
  }
  throw Error("no such collective");
}

}  // namespace lockstep::collective
