#pragma once

#include <cstdint>

namespace lockstep {

/// What a random stream is for: streams of different purposes never overlap.
enum class Purpose : uint64_t {
  weights = 1,
  shuffle,
  augment,
  forward,
  hold_out,
  evaluation,
  validation,
  mixup,
  delay
};

/// Random numbers that are a pure function of their key: which worker or thread draws them, and
/// when, makes no difference.
///
///     RandomStream stream(Purpose::augment, seed, epoch, sample);
///     bool flip = stream.below(2) == 1;
class RandomStream {
 public:
  template <typename... Keys>
  explicit RandomStream(Purpose purpose, Keys... keys)
      : state_(mix(static_cast<uint64_t>(purpose))) {
    ((state_ = mix(state_ ^ mix(static_cast<uint64_t>(keys) + kStep))), ...);
  }

  uint64_t next() { return mix(state_ += kStep); }

  /// Uniform over 0 .. bound-1, without bias. `bound` is at least 1.
  uint64_t below(uint64_t bound);

  /// Uniform over [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

  // SplitMix64's finalizer: every bit of the input affects every bit of the output.
  static constexpr uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace lockstep
