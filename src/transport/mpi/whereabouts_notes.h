#pragma once

#include <mpi.h>

#include <list>
#include <optional>
#include <vector>

#include "transport/mpi/exchange.h"

namespace lockstep::transport::mpi {

/// Whereabouts as MPI messages with a tag of their own.
class WhereaboutsNotes {
 public:
  /// `port` must outlive it.
  explicit WhereaboutsNotes(const Port& port) : port_(port), told_(port.peers.size()) {}

  void tell(const Whereabouts& mine);
  std::optional<Whereabouts> told_by(int rank);

 private:
  struct Sent {
    MPI_Request request;
    Whereabouts note;
  };

  void receive_all();
  int tag() const { return port_.first_tag + Exchange::kTags; }

  const Port& port_;
  Library& library_ = Library::get();
  std::list<Sent> sent_;  ///< and not received yet, for all MPI knows
  std::vector<std::optional<Whereabouts>> told_;
};

}  // namespace lockstep::transport::mpi
