#pragma once

namespace lockstep {

/// Sets environment variables that libraries behind LibTorch read when they are loaded, unless they
/// are set. OpenBLAS computes for the instruction set that LOCKSTEP_INSTRUCTIONS names, or for the
/// processor's widest: it takes processors that are newer than itself for very old ones. UCX, which
/// some versions of LibTorch load, starts without testing for 0.4 s whether it can patch mmap. Call
/// it before there are threads. Throws BadInput, as asked_instruction_set() does.
void set_up_libraries();

}  // namespace lockstep
