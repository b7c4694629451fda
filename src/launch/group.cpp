#include "launch/group.h"

#include "lockstep/error.h"
#include "sim/calibrate.h"
#include "sim/predict.h"
#include "transport/transports.h"

namespace lockstep::launch {

using collective::Communicator;

namespace {

collective::Algorithm named_algorithm(const std::string& algorithm, const std::string& option) {
  try {
    return collective::parse_algorithm(algorithm);
  } catch (const BadInput& unknown) {
    throw BadInput("{}{}", option, unknown.what());
  }
}

}  // namespace

void check_algorithm(const std::string& algorithm, const std::string& transport,
                     const std::string& option) {
  if (algorithm == "auto") return;
  if (named_algorithm(algorithm, option).is_engine() &&
      !transport::transports().at(transport).has_engine)
    throw BadInput("{}{}: transport {} has no all-reduce of its own; mpi and nccl have", option,
                   algorithm, transport);
}

std::unique_ptr<Communicator> join_group(const Job& job, const GroupOptions& options) {
  check_algorithm(options.algorithm, options.connect.transport, options.algorithm_option);
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
  } else if (group->world_size() > 1 && group->transport().shared_board() == nullptr &&
             group->transport().device() == nullptr) {
    const sim::Network network = sim::calibrate(*group, {.tell = options.tell});
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
