#include "parallel/parameter_shares.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace lockstep::parallel {
namespace {

const std::vector<DividedParameter> kParameters = {
    {1, 0}, {1000, 0}, {0, 1}, {64, 1}, {12345, 0}, {7, 2}, {100000, 1}, {63, 0}, {65, 0}};

int64_t elements_in(const Pieces& pieces) {
  int64_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.range.size();
  return sum;
}

// Every element is in one worker's pieces, in order.
void expect_all_covered(const std::vector<Pieces>& pieces) {
  for (size_t i = 0; i < kParameters.size(); ++i) {
    int64_t end = 0, found = 0;
    for (const Pieces& own : pieces)
      for (const Piece& piece : own) {
        if (piece.parameter != i) continue;
        EXPECT_EQ(piece.range.begin, end) << "parameter " << i;
        end = piece.range.end;
        ++found;
      }
    EXPECT_EQ(end, kParameters[i].elements) << "parameter " << i;
    EXPECT_GE(found, 1) << "parameter " << i << " has no owner";
  }
}

TEST(ParameterShares, CoverEveryElementOnce) {
  for (const int world : {1, 2, 3, 4, 7, 64}) {
    expect_all_covered(divide_elements(kParameters, world));
    expect_all_covered(divide_parameters(kParameters, world));
  }
}

TEST(ParameterShares, AreEvenForEveryKindWhateverTheParametersSizes) {
  for (const int world : {2, 3, 4, 7}) {
    const auto pieces = divide_elements(kParameters, world);
    for (const Pieces& own : pieces) {
      std::vector<int64_t> sums(3);
      for (const Piece& piece : own) sums[kParameters[piece.parameter].kind] += piece.range.size();
      EXPECT_LE(std::abs(sums[0] - 13474 / world), kPieceAlignment);
      EXPECT_LE(std::abs(sums[1] - 100064 / world), kPieceAlignment);
    }
  }
}

TEST(ParameterShares, CutParametersOnlyWhereLoopsOverThemAreCut) {
  for (const Pieces& own : divide_elements(kParameters, 7))
    for (const auto& [parameter, range] : own) {
      EXPECT_EQ(range.begin % kPieceAlignment, 0);
      EXPECT_TRUE(range.end % kPieceAlignment == 0 || range.end == kParameters[parameter].elements);
    }
}

TEST(ParameterShares, OfWholeParametersAreBalancedBySize) {
  const std::vector<DividedParameter> sizes = {{50, 0}, {100, 0}, {60, 0}, {30, 0}, {60, 0}};
  const auto pieces = divide_parameters(sizes, 2);
  EXPECT_EQ(elements_in(pieces[0]), 150);
  EXPECT_EQ(elements_in(pieces[1]), 150);
}

}  // namespace
}  // namespace lockstep::parallel
