#include "matpow/tiles.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "lockstep/error.h"

namespace lockstep::matpow {
namespace {

constexpr int64_t kElement = sizeof(float);
constexpr int64_t kTileBuffers = 6;
constexpr int64_t kStep = 16;  // of edges, so that kernels need no special cases

// What else is in a device's memory: the smallest and largest values of products, and kernels' own.
constexpr int64_t kBesides = int64_t{64} << 10;

}  // namespace

int64_t matrices_on_device(int devices) {
  return devices == 1 ? 4 : 3;
}

Tiles tiles_for(int64_t size, int devices, int64_t memory) {
  const int64_t whole = matrices_on_device(devices) * size * size * kElement + kBesides;
  if (memory == 0 || whole <= memory) return {.edge = size};
  const int64_t least = kTileBuffers * kStep * kStep * kElement + kBesides;
  if (memory < least)
    throw BadInput("--device-memory {}: too little for tiles of {} x {}; give at least {}",
                   format_bytes(memory), kStep, kStep, format_bytes(least));
  const int64_t elements = (memory - kBesides) / (kTileBuffers * kElement);
  const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(elements)));
  const int64_t largest = root / kStep * kStep;
  // Tiles of about one size: a narrow one at the end would be slow.
  const int64_t least_a_side = (size + largest - 1) / largest;
  const int64_t equal = (size + least_a_side - 1) / least_a_side;
  const int64_t edge = std::min(largest, (equal + kStep - 1) / kStep * kStep);
  return {.edge = edge, .a_side = (size + edge - 1) / edge};
}

}  // namespace lockstep::matpow
