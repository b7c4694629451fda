#include "base/fingerprint.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

namespace lockstep {
namespace {

// Odd random constants.
constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;
constexpr uint64_t kSeeds[] = {0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0,
                               0x082EFA98EC4E6C89};
constexpr size_t kStrands = std::size(kSeeds);
constexpr size_t kWord = sizeof(uint64_t);

// Combines both halves of a 128-bit product, so that every bit of the factors affects every bit of
// the result.
uint64_t mix(uint64_t state, uint64_t word) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(state ^ word) * kFactor;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64) ^
         std::rotl(state, 23);
}

uint64_t word_at(const std::byte* from, size_t bytes = kWord) {
  uint64_t word = 0;
  std::memcpy(&word, from, bytes);
  return word;
}

}  // namespace

uint64_t fingerprint(std::span<const std::byte> bytes) {
  uint64_t strands[kStrands];
  std::memcpy(strands, kSeeds, sizeof strands);
  size_t at = 0;
  for (; at + kStrands * kWord <= bytes.size(); at += kStrands * kWord)
    for (size_t i = 0; i < kStrands; ++i)
      strands[i] = mix(strands[i], word_at(bytes.data() + at + i * kWord));
  uint64_t result = mix(kFactor, bytes.size());
  for (const uint64_t strand : strands) result = mix(result, strand);
  for (; at < bytes.size(); at += kWord)
    result = mix(result, word_at(bytes.data() + at, std::min(kWord, bytes.size() - at)));
  result ^= result >> 32;
  result *= kFactor;
  return result ^ (result >> 29);
}

}  // namespace lockstep
