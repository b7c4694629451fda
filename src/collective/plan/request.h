#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/plan/all_reduce.h"

namespace lockstep::collective {

enum class Collective {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  barrier,
  send_receive
};

/// "all_reduce", "broadcast", ...; in the order of Collective.
const std::vector<std::string>& collective_names();

/// Throws BadInput with the nearest name.
Collective parse_collective(const std::string& name);

/// A collective with all that its plan depends on. What does not matter to it is left alone.
struct Request {
  Collective collective = Collective::all_reduce;
  /// Of all_reduce. A broadcast goes along a tree if this is one_to_all, tree or butterfly, else in
  /// slices. The others have one plan each.
  Algorithm algorithm = Algorithm::tree;
  Shards shards;
  int64_t count = 0;
  int root = 0;  ///< of broadcast, reduce, gather and scatter; who sends in send_receive
  int peer = 0;  ///< who receives in send_receive
};

/// Throws BadInput for counts below 0 and for ranks that do not exist.
Plan plan_of(const Request& request);

}  // namespace lockstep::collective
