#include "parallel/gradient_layout.h"

#include <numeric>

#include "lockstep/error.h"

namespace lockstep::parallel {
namespace {

constexpr int64_t kAlignment = 64;  // a cache line

}  // namespace

int64_t bytes_in_layout(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::vector<Range> slices_of_rank(const GradientLayout& layout, int world, int rank) {
  std::vector<Range> slices;
  for (const GradientLayout::Bucket& bucket : layout.buckets) {
    const int64_t first = bucket.begin / static_cast<int64_t>(bytes_of(bucket.type));
    const Range inside = slice(bucket.count(), world, rank);
    slices.push_back({first + inside.begin, first + inside.end});
  }
  return slices;
}

std::vector<size_t> last_first(size_t parameters) {
  std::vector<size_t> order(parameters);
  std::iota(order.rbegin(), order.rend(), size_t{0});
  return order;
}

GradientLayout lay_out(std::span<const GradientSize> gradients, std::span<const size_t> ready,
                       const BucketLimits& limits) {
  if (limits.first_bytes < 1 || limits.bytes < 1)
    throw BadInput("buckets of {} and {} bytes: expected at least 1", limits.first_bytes,
                   limits.bytes);
  GradientLayout layout;
  layout.places.resize(gradients.size());
  const auto has_room = [&](const GradientLayout::Bucket& bucket, Type type) {
    const int64_t limit = layout.buckets.size() == 1 ? limits.first_bytes : limits.bytes;
    return bucket.type == type && bucket.end - bucket.begin < limit;
  };
  for (const size_t parameter : ready) {
    const auto [count, type] = gradients[parameter];
    if (layout.buckets.empty() || !has_room(layout.buckets.back(), type))
      layout.buckets.push_back({layout.bytes, layout.bytes, type, {}});
    GradientLayout::Bucket& bucket = layout.buckets.back();
    const int64_t bytes = count * static_cast<int64_t>(bytes_of(type));
    layout.places[parameter] = {layout.buckets.size() - 1, layout.bytes, bytes};
    bucket.parameters.push_back(parameter);
    bucket.end = layout.bytes = bytes_in_layout(layout.bytes + bytes);
  }
  return layout;
}

}  // namespace lockstep::parallel
