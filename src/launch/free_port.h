#pragma once

namespace lockstep::launch {

/// A TCP port of this machine that nobody listens on at the moment.
int free_port();

}  // namespace lockstep::launch
