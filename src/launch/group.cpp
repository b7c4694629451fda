#include "launch/group.h"

#include "lockstep/error.h"
#include "sim/calibrate.h"
#include "sim/predict.h"

namespace lockstep::launch {

using collective::Communicator;

void check_algorithm(const std::string& algorithm, const std::string& transport) {
  if (algorithm == "auto") return;
  if (collective::parse_algorithm(algorithm).is_engine() && transport != "mpi")
    throw BadInput("--algorithm {}: transport {} has no all-reduce of its own; mpi has", algorithm,
                   transport);
}

std::unique_ptr<Communicator> join_group(const Job& job, const GroupOptions& options) {
  check_algorithm(options.algorithm, options.connect.transport);
  ConnectOptions connecting = options.connect;
  connecting.facts.insert(connecting.facts.begin(), {"the algorithm", options.algorithm});
  auto group = std::make_unique<Communicator>(
      connect(job, connecting),
      collective::CommunicatorOptions{.timeout_seconds = options.timeout_seconds,
                                      .stall_seconds = options.stall_seconds,
                                      .tell_stall = options.tell});
  if (options.algorithm != "auto") {
    group->choose(
        [chosen = collective::parse_algorithm(options.algorithm)](int64_t) { return chosen; });
  } else if (group->world_size() > 1 && group->transport().shared_board() == nullptr) {
    const sim::Network network = sim::calibrate(*group);
    if (options.tell_more && group->rank() == 0)
      options.tell_more("auto: measured " + describe(network));
    group->choose(sim::cheapest_on(network, group->world_size()));
  }
  return group;
}

std::string algorithm_in_use(const GroupOptions& options, Communicator& group) {
  if (options.algorithm != "auto" || group.transport().shared_board() == nullptr)
    return options.algorithm;
  return collective::usual_algorithm(0, group.transport()).name();
}

}  // namespace lockstep::launch
