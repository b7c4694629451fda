#include "collective/plan/all_reduce.h"

#include "collective/plan/rank_tree.h"
#include "lockstep/error.h"

namespace lockstep::collective {

// Made when it is first used, so that files may add rows in whichever order they are loaded.
Table<AlgorithmRow>& algorithms() {
  static Table<AlgorithmRow> table("algorithm");
  return table;
}

namespace {

[[maybe_unused]] const bool engine_added =
    algorithms().add({.name = "engine",
                      .about = "the transport's own all-reduce, such as MPI_Allreduce",
                      .rounds = "the transport's",
                      .cost = "the transport's"});

}  // namespace

Plan fold_own_terms(const Shards& shards, int64_t count) {
  std::vector<int> terms;
  for (int rank = 0; rank < shards.world_size(); ++rank)
    terms.push_back(static_cast<int>(shards.terms_of(rank).size()));
  const auto round = [=](int rank, int) {
    Round result;
    for (Slot slot = 1; slot < terms[static_cast<size_t>(rank)]; ++slot)
      result.fold(kBucket, slot, {0, count});
    return result;
  };
  const int most = shards.most_terms();
  return {shards.world_size(), count, most > 1 ? 1 : 0, most, round};
}

Algorithm parse_algorithm(const std::string& name) {
  return Algorithm(algorithms().at(name));
}

std::vector<Algorithm> planned_algorithms() {
  std::vector<Algorithm> planned;
  for (const auto& row : algorithms())
    if (row->make != nullptr) planned.emplace_back(*row);
  return planned;
}

Plan all_reduce(Algorithm algorithm, const Shards& shards, int64_t count) {
  if (count < 0) throw BadInput("all_reduce of {} elements: expected at least 0", count);
  if (algorithm.is_engine())
    throw BadInput("algorithm {}: it is the transport's own all-reduce and has no plan",
                   algorithm.name());
  if (shards.world_size() == 1) return finish_alone(shards, count);
  return algorithm->make(shards, count);
}

Plan all_reduce(Algorithm algorithm, int world, int64_t count) {
  if (world < 1) throw BadInput("all_reduce on {} ranks: expected at least 1", world);
  return all_reduce(algorithm, Shards::even(world, world), count);
}

}  // namespace lockstep::collective
