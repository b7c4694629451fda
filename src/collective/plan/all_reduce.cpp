#include "collective/plan/all_reduce.h"

#include <algorithm>
#include <memory>

#include "base/nearest.h"
#include "collective/plan/butterfly.h"
#include "collective/plan/direct.h"
#include "collective/plan/halving_doubling.h"
#include "collective/plan/one_to_all.h"
#include "collective/plan/ring.h"
#include "collective/plan/start.h"
#include "collective/plan/tree.h"
#include "lockstep/error.h"

namespace lockstep::collective {
namespace {

const std::string kEngine = "engine";

}  // namespace

const std::vector<std::string>& algorithm_names() {
  static const std::vector<std::string> names = {"one_to_all",       "tree",  "butterfly", "ring",
                                                 "halving_doubling", "direct"};
  return names;
}

const std::string& name_of(Algorithm algorithm) {
  return algorithm == Algorithm::engine ? kEngine
                                        : algorithm_names()[static_cast<size_t>(algorithm)];
}

Algorithm parse_algorithm(const std::string& name) {
  if (name == kEngine) return Algorithm::engine;
  const auto& names = algorithm_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw BadInput("algorithm '{}': no such algorithm{}; there are: {}, {}", name,
                   did_you_mean(name, names), fmt::join(names, ", "), kEngine);
  return static_cast<Algorithm>(found - names.begin());
}

bool is_canonical(Algorithm algorithm) {
  return algorithm != Algorithm::ring && algorithm != Algorithm::engine;
}

Plan all_reduce(Algorithm algorithm, const Shards& shards, int64_t count) {
  if (count < 0) throw BadInput("all_reduce of {} elements: expected at least 0", count);
  if (shards.world_size() == 1) return finish_alone(shards, count);
  const auto start = std::make_shared<const Start>(shards, count);
  switch (algorithm) {
    case Algorithm::one_to_all:
      return sequence(Start::plan(start), one_to_all(start));
    case Algorithm::tree:
      return sequence(Start::plan(start), tree(start));
    case Algorithm::butterfly:
      return sequence(Start::plan(start), butterfly(start));
    case Algorithm::halving_doubling:
      return sequence(Start::plan(start), halving_doubling(start));
    case Algorithm::ring:
      return ring(shards, count);
    case Algorithm::direct:
      return direct(shards, count);
    case Algorithm::engine:
      throw BadInput("algorithm engine: it is the transport's own and has no plan to look at");
  }
  throw Error("no such algorithm");
}

Plan all_reduce(Algorithm algorithm, int world, int64_t count) {
  if (world < 1) throw BadInput("all_reduce on {} ranks: expected at least 1", world);
  return all_reduce(algorithm, Shards::even(world, world), count);
}

}  // namespace lockstep::collective
