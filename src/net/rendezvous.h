#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace lockstep::net {

/// What messages call a rank: "rank 3 (node7, pid 4711)".
struct Peer {
  int rank = 0;  ///< in the whole job, of which a group may be a part
  std::string host;
  int pid = 0;

  std::string text() const { return fmt::format("rank {} ({}, pid {})", rank, host, pid); }
};

/// Lets the ranks of a group exchange short texts before they have a transport. Transports use it
/// to connect, and not afterwards.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  /// This rank's number in the whole job, for messages.
  virtual int job_rank() const { return rank(); }

  /// Collective: every rank passes a text and gets the texts of all ranks, ordered by rank. Throws
  /// Timeout with the ranks that did not call it in time, PeerLost with a rank that ended.
  virtual std::vector<std::string> gather(const std::string& text) = 0;

  /// The address at which other hosts reach this rank's host; "" when the rendezvous does not know.
  virtual std::string address() const { return ""; }
};

/// A rendezvous between some ranks of another one. All ranks of the parent must use one at the same
/// time, each with the members of its own group.
class GroupRendezvous : public Rendezvous {
 public:
  /// `members` are ranks of the parent, this one included; rank i of the group is members[i].
  GroupRendezvous(Rendezvous& parent, std::vector<int> members);

  int rank() const override { return rank_; }
  int world_size() const override { return static_cast<int>(members_.size()); }
  int job_rank() const override { return parent_.job_rank(); }
  std::string address() const override { return parent_.address(); }
  std::vector<std::string> gather(const std::string& text) override;

 private:
  Rendezvous& parent_;
  const std::vector<int> members_;
  const int rank_;
};

}  // namespace lockstep::net
