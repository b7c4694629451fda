#pragma once

namespace lockstep::launch {

/// From here on a lockstep::Error that nobody catches ends this process with one line on stderr,
/// `lockstep: rank 1: ...`, and the error's exit code, so that who lost others is not taken for the
/// one that failed. Anything else that nobody catches ends as it did before.
void end_by_uncaught_errors();

/// Makes this process rank `rank` of a launcher's job: an uncaught error names it, and lines on
/// stdout leave at once also where stdout is no terminal, so that the launcher shows them in time
/// and none is lost with the process.
void become_rank(int rank);

}  // namespace lockstep::launch
