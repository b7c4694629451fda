#pragma once

namespace lockstep::launch {

/// From now on, an uncaught lockstep::Error ends this process with one line on stderr, `lockstep:
/// rank 1: ...`, and the error's exit code; the launcher can then distinguish a worker that lost
/// others from the one that failed. Any other uncaught exception aborts the process, with its type
/// and message on stderr.
void end_by_uncaught_errors();

/// Makes this process rank `rank` of a launcher's job: uncaught errors name the rank, and stdout
/// becomes line-buffered if it is not a terminal, so that the launcher shows lines immediately and
/// none is lost if the process aborts.
void become_rank(int rank);

}  // namespace lockstep::launch
