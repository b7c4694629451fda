#pragma once

namespace lockstep {

/// The program `lockstep`, for programs of your own that are all of it and have more models, data
/// sets or objectives linked in:
///
///     #include <lockstep/main.h>
///
///     int main(int argc, char** argv) {
///       return lockstep::main(argc, argv);
///     }
///
/// Reads the command line, runs the command and returns the program's exit code: 0, 2 for bad
/// input, 130 and 143 where Ctrl-C or SIGTERM stopped it, else 1. Errors are told in a line on
/// stderr; nothing is thrown. Call it once, before other threads are started: workers are forked
/// from this process.
int main(int argc, char** argv);

}  // namespace lockstep
