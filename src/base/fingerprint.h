#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep {

/// A fast 64-bit hash: equal bytes give equal hashes, different ones almost surely different
/// hashes. Not cryptographic, and not for files, since it depends on the machine's byte order.
uint64_t fingerprint(std::span<const std::byte> bytes);

}  // namespace lockstep
