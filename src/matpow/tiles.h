#pragma once

#include <cstdint>

namespace lockstep::matpow {

/// How a device of limited memory computes with matrices of `size` rows.
struct Tiles {
  int64_t edge = 0;  ///< rows of a tile; those at the end may have fewer
  int64_t a_side =
      1;  ///< tiles in a row of tiles; 1: matrices are in the device's memory as a whole

  bool whole() const { return a_side == 1; }
};

/// Matrices that a device holds when it computes without tiles: both inputs, or one of them, and
/// two for products.
int64_t matrices_on_device(int devices);

/// Tiles that fit: whole matrices if possible, else six tiles, of which two at a time are
/// copied, multiplied and stored. `memory` is in bytes; 0: no limit. Throws BadInput if not even
/// the smallest tiles fit.
Tiles tiles_for(int64_t size, int devices, int64_t memory);

}  // namespace lockstep::matpow
