#pragma once

#include <string>
#include <vector>

namespace lockstep::transport {

/// How ranks that cannot talk yet get to know each other: a notice board that all can reach.
/// Transports use it to set themselves up, and not afterwards.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  /// This rank's number in the whole job, for messages.
  virtual int job_rank() const { return rank(); }

  /// Every rank gives a text and gets everyone's, by rank. All ranks call it equally often. Throws
  /// Timeout with the ranks that did not come, PeerLost with one that went.
  virtual std::vector<std::string> gather(const std::string& text) = 0;

  /// The address at which others reach this rank's machine; "" when the rendezvous does not know.
  virtual std::string address() const { return ""; }
};

/// A rendezvous of some ranks of another, which all ranks of that one must hold at the same time,
/// each with its group.
class GroupRendezvous : public Rendezvous {
 public:
  /// `members` are the parent's ranks, this one among them, in the order of their new ranks.
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

}  // namespace lockstep::transport
