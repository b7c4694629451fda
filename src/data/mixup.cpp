#include "data/mixup.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "data/dataset.h"
#include "device/random.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// Joehnk's method: powers of two uniform numbers, accepted if their sum is at most 1.
double draw_beta(double alpha, RandomStream& stream) {
  while (true) {
    const double u = stream.uniform();
    const double v = stream.uniform();
    const double x = std::pow(u, 1 / alpha);
    const double y = std::pow(v, 1 / alpha);
    if (x + y == 0) return u > v ? 1 : 0;  // both are too small for a double
    if (x + y <= 1) return x / (x + y);
  }
}

bool is_label(const Field& field) {
  return !field.categories.empty() && field.type == Type::i64 && field.shape.empty();
}

bool is_numeric(const Field& field) {
  return field.categories.empty() && (field.type == Type::f32 || field.type == Type::f64);
}

Fields mixed_fields(Fields fields) {
  for (const Field& input : fields.inputs)
    if (!is_numeric(input))
      throw BadInput("data.mixup: input '{}' does not consist of numbers that could be mixed",
                     input.name);
  for (Field& target : fields.targets) {
    if (is_numeric(target)) continue;
    if (!is_label(target))
      throw BadInput(
          "data.mixup: target '{}' cannot be mixed; this needs a class label or fractional "
          "numbers",
          target.name);
    target.type = Type::f32;
    target.shape = {static_cast<int64_t>(target.categories.size())};
  }
  return fields;
}

size_t checked_label(const Sample& sample, size_t field, size_t classes) {
  const int64_t label = sample.as<int64_t>(field)[0];
  if (label < 0 || std::cmp_greater_equal(label, classes))
    throw BadInput("label {}: expected 0 to {}", label, classes - 1);
  return static_cast<size_t>(label);
}

template <typename T>
void blend(std::span<T> own, std::span<T> other, double share) {
  const auto a = static_cast<T>(share);
  const auto b = static_cast<T>(1 - share);
  for (size_t i = 0; i < own.size(); ++i) own[i] = a * own[i] + b * other[i];
}

class MixedUp final : public DatasetLayer {
 public:
  MixedUp(std::shared_ptr<const Dataset> dataset, double alpha, uint64_t seed)
      : DatasetLayer(std::move(dataset)),
        alpha_(alpha),
        seed_(seed),
        fields_(mixed_fields(below().fields())) {}

  const Fields& fields() const override { return fields_; }

  void write(int64_t index, const Sample& to) const override {
    const Mix mix = draw_mix(alpha_, size(), seed_, to.epoch(), index);
    const Fields& plain = below().fields();
    const SampleRoom own_room(plain);
    const SampleRoom other_room(plain);
    const Sample own(plain, own_room.memory(), to.epoch());
    const Sample other(plain, other_room.memory(), to.epoch());
    write_sample(below(), index, own);
    write_sample(below(), mix.partner, other);
    for (size_t i = 0; i < plain.count(); ++i) {
      if (is_label(plain[i])) {
        const std::span<float> probabilities = to.as<float>(i);
        std::ranges::fill(probabilities, 0.0F);
        const size_t classes = probabilities.size();
        probabilities[checked_label(own, i, classes)] += static_cast<float>(mix.own);
        probabilities[checked_label(other, i, classes)] += static_cast<float>(1 - mix.own);
        continue;
      }
      if (plain[i].type == Type::f32)
        blend(own.as<float>(i), other.as<float>(i), mix.own);
      else
        blend(own.as<double>(i), other.as<double>(i), mix.own);
      std::ranges::copy(own.bytes(i), to.bytes(i).begin());
    }
  }

 private:
  const double alpha_;
  const uint64_t seed_;
  const Fields fields_;
};

}  // namespace

Mix draw_mix(double alpha, int64_t size, uint64_t seed, int64_t epoch, int64_t sample) {
  RandomStream stream(Purpose::mixup, seed, epoch, sample);
  const auto partner = static_cast<int64_t>(stream.below(static_cast<uint64_t>(size)));
  const double share = draw_beta(alpha, stream);
  return {partner, std::max(share, 1 - share)};
}

std::shared_ptr<const Dataset> mixed_up(std::shared_ptr<const Dataset> dataset, double alpha,
                                        uint64_t seed) {
  if (alpha == 0) return dataset;
  return std::make_shared<MixedUp>(std::move(dataset), alpha, seed);
}

}  // namespace lockstep::data
