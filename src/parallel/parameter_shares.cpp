#include "parallel/parameter_shares.h"

#include <algorithm>
#include <numeric>

namespace lockstep::parallel {
namespace {

// A parameter's place in the concatenation of those of its kind.
struct Placed {
  size_t parameter;
  Range range;
};

std::vector<Placed> concatenation(const std::vector<DividedParameter>& parameters, size_t kind) {
  std::vector<Placed> placed;
  int64_t end = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].kind != kind) continue;
    placed.push_back({i, {end, end + parameters[i].elements}});
    end += parameters[i].elements;
  }
  return placed;
}

// The place nearest to `at` where a parameter may be cut.
int64_t cut_near(int64_t at, const std::vector<Placed>& placed) {
  for (const auto& [parameter, range] : placed) {
    if (at >= range.end) continue;
    const int64_t below = range.begin + (at - range.begin) / kPieceAlignment * kPieceAlignment;
    const int64_t above = std::min(below + kPieceAlignment, range.end);
    return at - below <= above - at ? below : above;
  }
  return at;
}

void divide_kind(const std::vector<Placed>& placed, std::vector<Pieces>& pieces) {
  const int64_t total = placed.back().range.end;
  const auto world = static_cast<int64_t>(pieces.size());
  for (int64_t rank = 0; rank < world; ++rank) {
    const Range even = slice(total, world, rank);
    const Range own = {cut_near(even.begin, placed), cut_near(even.end, placed)};
    for (const auto& [parameter, range] : placed) {
      const Range met = {std::max(own.begin, range.begin), std::min(own.end, range.end)};
      // A parameter without elements has state, too: it counts updates.
      const bool is_nothing = range.empty() && rank == 0;
      if (is_nothing) pieces[0].push_back({parameter, {0, 0}});
      if (!met.empty())
        pieces[static_cast<size_t>(rank)].push_back(
            {parameter, {met.begin - range.begin, met.end - range.begin}});
    }
  }
}

void sort(std::vector<Pieces>& pieces) {
  for (Pieces& own : pieces)
    std::sort(own.begin(), own.end(),
              [](const Piece& a, const Piece& b) { return a.parameter < b.parameter; });
}

}  // namespace

std::vector<Pieces> divide_elements(const std::vector<DividedParameter>& parameters, int world) {
  std::vector<Pieces> pieces(static_cast<size_t>(world));
  size_t kinds = 0;
  for (const DividedParameter& parameter : parameters) kinds = std::max(kinds, parameter.kind + 1);
  for (size_t kind = 0; kind < kinds; ++kind)
    if (const auto placed = concatenation(parameters, kind); !placed.empty())
      divide_kind(placed, pieces);
  sort(pieces);
  return pieces;
}

std::vector<Pieces> divide_parameters(const std::vector<DividedParameter>& parameters, int world) {
  std::vector<size_t> by_size(parameters.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::sort(by_size.begin(), by_size.end(), [&](size_t a, size_t b) {
    const int64_t of_a = parameters[a].elements, of_b = parameters[b].elements;
    return of_a != of_b ? of_a > of_b : a < b;
  });
  std::vector<Pieces> pieces(static_cast<size_t>(world));
  std::vector<int64_t> loads(pieces.size());
  for (const size_t parameter : by_size) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += parameters[parameter].elements;
    pieces[static_cast<size_t>(least - loads.begin())].push_back(
        {parameter, {0, parameters[parameter].elements}});
  }
  sort(pieces);
  return pieces;
}

}  // namespace lockstep::parallel
