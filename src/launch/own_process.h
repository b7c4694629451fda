#pragma once

namespace lockstep::launch {

/// Makes this process rank `rank` of a launcher's job: lines on stdout leave at once also where stdout is no terminal, so that the launcher shows them in time
/// and none is lost with the process.
void become_rank(int rank);

}  // namespace lockstep::launch
