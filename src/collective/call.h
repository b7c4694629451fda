#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/element.h"
#include "collective/plan/collectives.h"
#include "transport/device.h"
#include "transport/transport.h"

namespace lockstep::collective {

/// What a collective transfers: sent bytes are counted by kind, and messages name it.
struct Cargo {
  enum class Kind { gradients, parameters, buffers, activations, other };
  static constexpr size_t kKinds = 5;

  Kind kind = Kind::other;
  int bucket = -1;  ///< of gradients or parameters

  /// "gradient bucket 3"; empty for cargo without a name.
  std::string text() const;
};

/// A collective as one rank called it. Every message carries it as a label, so that ranks that call
/// different collectives find out.
struct Call {
  uint64_t number = 0;  ///< counts the group's collectives, or the messages between two ranks
  Collective collective = Collective::all_reduce;
  Algorithm algorithm;  ///< of all_reduce
  BroadcastBy broadcast_by = BroadcastBy::tree;
  Operation operation = Operation::sum;
  Type type = Type::f32;
  transport::Place place = transport::Place::host;  ///< of the buffers
  int64_t count = 0;
  int64_t shards = 0;
  int root = 0;
  int peer = 0;
};

/// The label's last word is left for the number of the round.
transport::Label label_of(const Call& call);

/// Whether two labels are of one call, in whatever round.
bool same_call(const transport::Label& a, const transport::Label& b);

/// The ranks of a `send` and its `receive`; nothing for the labels of collectives.
struct MessageEnds {
  int from;
  int to;
};
std::optional<MessageEnds> message_ends(const transport::Label& label);

/// Whether a label is of an `exchange`: these are not numbered, since each rank chooses its
/// partners.
bool is_exchange(const transport::Label& label);

/// A label as text: "all_reduce number 7 (direct) of 1000 f32, sum over 2 shards, round 1".
std::string describe(const transport::Label& label);

}  // namespace lockstep::collective
