#pragma once

namespace lockstep {

/// The `lockstep` program as a function. Use it to build your own `lockstep` with additional
/// models, data sets or objectives linked in:
///
///     #include <lockstep/main.h>
///
///     int main(int argc, char** argv) {
///       return lockstep::main(argc, argv);
///     }
///
/// Runs the command of the command line and returns the exit code: 0, 2 for bad input, 130 or 143
/// if Ctrl-C or SIGTERM stopped it, 75 if other workers were lost, else 1. Prints errors on stderr
/// and throws nothing. Call it once, before you start threads: workers are forked from this
/// process.
int main(int argc, char** argv);

}  // namespace lockstep
