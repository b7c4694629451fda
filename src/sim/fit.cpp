// A weighted least-squares line. Dividing both sides of seconds_i = fixed + bytes_i * per_byte by
// seconds_i makes errors relative: with u = 1/seconds and v = bytes/seconds, the least of
// sum (fixed u + per_byte v - 1)^2 is where its two derivatives are zero.
#include "sim/fit.h"

#include <algorithm>

#include "lockstep/error.h"

namespace lockstep::sim {
namespace {

struct Line {
  double fixed;
  double per_byte;
};

Line least_squares(std::span<const Measurement> measurements) {
  double uu = 0, uv = 0, vv = 0, u = 0, v = 0;
  for (const Measurement& point : measurements) {
    const double inverse = 1 / point.seconds;
    const double rate = static_cast<double>(point.bytes) * inverse;
    uu += inverse * inverse;
    uv += inverse * rate;
    vv += rate * rate;
    u += inverse;
    v += rate;
  }
  const double determinant = uu * vv - uv * uv;
  const Line line{(u * vv - v * uv) / determinant, (v * uu - u * uv) / determinant};
  // Noise can ask for a message of no bytes that arrives before it is sent.
  return line.fixed >= 0 ? line : Line{0, v / vv};
}

void check(std::span<const Measurement> measurements) {
  for (const Measurement& point : measurements)
    if (point.bytes < 0 || !(point.seconds > 0) || point.seconds == kUnlimited)
      throw BadInput("calibration: {} bytes in {} seconds: expected at least 0 in more than 0",
                     point.bytes, point.seconds);
  const auto other = std::find_if(
      measurements.begin(), measurements.end(),
      [&](const Measurement& point) { return point.bytes != measurements.front().bytes; });
  if (other == measurements.end())
    throw BadInput("calibration: {} measurements of one size: expected two sizes or more",
                   measurements.size());
}

}  // namespace

Network fit(std::span<const Measurement> measurements, const Network& known) {
  check(measurements);
  const Line line = least_squares(measurements);
  if (!(line.per_byte > 0))
    throw BadInput(
        "calibration: messages of {} measurements take no longer when they are longer; measure "
        "longer ones",
        measurements.size());
  Network network = known;
  network.latency = std::max(0.0, line.fixed - 2 * known.overhead);
  network.bytes_per_second = 1 / line.per_byte;
  return network;
}

}  // namespace lockstep::sim
