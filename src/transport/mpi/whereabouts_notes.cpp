#include "transport/mpi/whereabouts_notes.h"

namespace lockstep::transport::mpi {

void WhereaboutsNotes::tell(const Whereabouts& mine) {
  const MutexLock lock(library_.mutex());
  std::erase_if(sent_, [](Sent& sent) {
    int done = 0;
    check(MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  });
  for (int peer = 0; peer < static_cast<int>(port_.peers.size()); ++peer) {
    if (peer == port_.rank) continue;
    Sent& sent = sent_.emplace_back(Sent{MPI_REQUEST_NULL, mine});
    check(MPI_Isend(&sent.note, sizeof sent.note, MPI_BYTE, peer, tag(), port_.communicator,
                    &sent.request),
          "MPI_Isend");
  }
}

std::optional<Whereabouts> WhereaboutsNotes::told_by(int rank) {
  receive_all();
  return told_[static_cast<size_t>(rank)];
}

void WhereaboutsNotes::receive_all() {
  const MutexLock lock(library_.mutex());
  while (true) {
    int there = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, tag(), port_.communicator, &there, &status), "MPI_Iprobe");
    if (there == 0) return;
    Whereabouts note;
    check(MPI_Recv(&note, sizeof note, MPI_BYTE, status.MPI_SOURCE, tag(), port_.communicator,
                   MPI_STATUS_IGNORE),
          "MPI_Recv");
    told_[static_cast<size_t>(status.MPI_SOURCE)] = note;
  }
}

}  // namespace lockstep::transport::mpi
