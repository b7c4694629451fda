#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep {

/// 64 bits that tell memory apart, at memory's speed: the same bytes give the same bits, others
/// almost surely others. Not for keeping secrets, and not for files: the order of bytes is the
/// machine's.
uint64_t fingerprint(std::span<const std::byte> bytes);

}  // namespace lockstep
