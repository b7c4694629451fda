#include "fit/selection.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

namespace lockstep::fit {
namespace {

// Whether it is one of the ways that everyone looks for, and not a combination of several. Pieces
// and ZeRO complete others.
bool is_plain(const Way& way, const Recipe& recipe) {
  return (way.pipelines > 1) + (way.stages > 1) + way.recompute +
             (way.precision != recipe.train.precision) <=
         1;
}

// Recomputation and ZeRO cost time or messages: where the same way fits without, leave them out.
bool is_better_without(const Way& way, const std::vector<Way>& all) {
  return std::ranges::any_of(all, [&](const Way& other) {
    const bool same = other.pipelines == way.pipelines && other.stages == way.stages &&
                      other.precision == way.precision;
    const bool leaves_out = (way.recompute && !other.recompute && other.zero <= way.zero) ||
                            (way.zero && !other.zero && other.recompute <= way.recompute);
    return same && leaves_out && other.fits &&
           (other.seconds_per_step <= way.seconds_per_step || !way.fits);
  });
}

// Where a single layer is what needs most, computing it again may need more than keeping what it
// has computed.
bool recomputes_in_vain(const Way& way, const std::vector<Way>& all) {
  return way.recompute && std::ranges::any_of(all, [&](const Way& other) {
           return !other.recompute && other.pipelines == way.pipelines &&
                  other.stages == way.stages && other.zero == way.zero &&
                  other.precision == way.precision && other.known &&
                  other.samples_per_pass == way.samples_per_pass &&
                  other.needs.sum() <= way.needs.sum();
         });
}

using Identity = std::tuple<int, int, int64_t, bool, bool, std::string>;
Identity identity(const Way& way) {
  return {way.pipelines, way.stages, way.accumulate, way.recompute, way.zero, way.precision};
}

// Whether no other way that fits is faster on no more devices. Another precision has another
// result, so it is no reason to leave a way out.
bool is_worth_its_devices(const Way& way, const std::vector<Way>& all) {
  return way.fits && std::ranges::none_of(all, [&](const Way& other) {
           return other.fits && other.precision == way.precision &&
                  other.devices() <= way.devices() && other.seconds_per_step < way.seconds_per_step;
         });
}

}  // namespace

std::vector<Way> selected(const std::vector<Way>& found, const Recipe& recipe) {
  std::vector<Way> all = found;
  std::erase_if(all, [&](const Way& way) { return recomputes_in_vain(way, found); });
  std::vector<Way> chosen;
  std::map<std::string, std::vector<Way>> plain;
  for (const Way& way : all) {
    if (is_plain(way, recipe)) plain[way.name()].push_back(way);
    if (is_worth_its_devices(way, all) && !is_better_without(way, all)) chosen.push_back(way);
  }
  for (const auto& [name, ways] : plain)
    chosen.push_back(*std::ranges::min_element(ways, {}, [](const Way& way) {
      return way.fits ? std::tuple(0, int64_t{way.devices()}, way.seconds_per_step)
                      : std::tuple(1, way.needs.sum(), way.seconds_per_step);
    }));
  std::set<Identity> seen;
  std::erase_if(chosen, [&](const Way& way) { return !seen.insert(identity(way)).second; });
  return chosen;
}

}  // namespace lockstep::fit
