#include "collective/communicator.h"

namespace lockstep::collective {

// It may outlive the transport: groups that are split off have it, too.
std::function<Algorithm(int64_t)> usual_choice(transport::Transport& transport) {
  return [in_shared_memory = transport.shared_board() != nullptr](int64_t bytes) {
    static const Algorithm without_messages = parse_algorithm("direct");
    static const Algorithm few_rounds = parse_algorithm("butterfly");
    static const Algorithm few_bytes = parse_algorithm("halving_doubling");
    if (in_shared_memory) return without_messages;
    return bytes <= kSmallBytes ? few_rounds : few_bytes;
  };
}

Algorithm usual_algorithm(int64_t bytes, transport::Transport& transport) {
  return usual_choice(transport)(bytes);
}

}  // namespace lockstep::collective
