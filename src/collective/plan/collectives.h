#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/plan/all_reduce.h"
#include "collective/plan/plan.h"
#include "collective/plan/shards.h"

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
  send_receive,
  all_to_all,
  exchange
};

/// "all_reduce", "broadcast", ...; in the order of Collective.
const std::vector<std::string>& collective_names();

/// Whether one rank has a part of its own in it.
bool has_root(Collective collective);
/// Whether it combines elements of several ranks.
bool reduces(Collective collective);

/// Throws BadInput with the nearest name.
Collective parse_collective(const std::string& name);

/// How a broadcast is sent. Both give the same result.
enum class BroadcastBy {
  tree,   ///< whole buckets, in ceil(log2 n) rounds: best for small buckets
  slices  ///< scatter and all-gather, one round more: the root sends less than two buckets and the
          ///< other ranks less than one, best for large buckets
};

/// A collective and everything that its plan depends on. Fields that it does not use are ignored.
struct Request {
  Collective collective = Collective::all_reduce;
  Algorithm algorithm;                           ///< of all_reduce
  BroadcastBy broadcast_by = BroadcastBy::tree;  ///< of broadcast
  Shards shards;
  int64_t count = 0;
  int root = 0;  ///< of broadcast, reduce, gather and scatter; the sender of send_receive
  int peer = 0;  ///< the receiver of send_receive
};

/// Throws BadInput for counts below 0, for ranks that do not exist, and for `exchange`, in which
/// each rank chooses its partners.
Plan plan_of(const Request& request);

// The collectives besides all_reduce. Slice r of a bucket (base/range.h) belongs to rank r.

/// The root's bucket becomes the sum of all shards, in ceil(log2 n) rounds, in canonical order; the
/// buckets of the other ranks are overwritten. Shards that are not whole nodes take one more round.
Plan reduce(const Shards& shards, int64_t count, int root);

/// Slice r of rank r's bucket becomes the sum of all shards, in one round; the rest of the buckets
/// is overwritten. A rank sends (n-1)/n of a bucket, which is the least possible.
Plan reduce_scatter(const Shards& shards, int64_t count);

/// Every bucket becomes the root's.
Plan broadcast(int world, int64_t count, int root, BroadcastBy by);

/// Slice r of the root's bucket is sent to rank r, in one round.
Plan scatter(int world, int64_t count, int root);

/// Slice r of rank r's bucket is sent to the root, in one round.
Plan gather(int world, int64_t count, int root);

/// Slice r of rank r's bucket is sent to all ranks, in ceil(log2 n) rounds. A rank sends (n-1)/n of
/// a bucket, which is the least possible.
Plan all_gather(int world, int64_t count);

/// Ranges that a rank has, in order.
using Share = std::vector<Range>;

/// The same for any shares, by rank, that together are the bucket.
Plan all_gather(const std::vector<Share>& shares, int64_t count);

/// Slice r of rank p's bucket is sent to slice p of rank r's slot 1, in one round; buckets stay as
/// they are. The count must be a multiple of the number of ranks. The slice that a rank keeps is
/// not part of the plan.
Plan all_to_all(int world, int64_t count);

/// No rank leaves before all have entered, in ceil(log2 n) rounds. The plan moves a bucket of one
/// element, which stays as it is, because empty messages are not sent.
Plan barrier(int world);

/// The bucket of rank `to` becomes that of rank `from`, in one round; other ranks do nothing.
Plan send_receive(int world, int64_t count, int from, int to);

}  // namespace lockstep::collective
