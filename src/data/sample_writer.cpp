#include "data/sample_writer.h"

#include <algorithm>

#include "lockstep/error.h"

namespace lockstep::data {
namespace {

void require_fitting(const Dataset& dataset, const Augment& augment) {
  if (!augment.flip && augment.shift == 0) return;
  if (dataset.shape.size() != 3)
    throw BadInput(
        "augment: samples of shape {} are not images (channels x height x width): take "
        "flip and shift out",
        to_string(dataset.shape));
  const int64_t side = std::min(dataset.shape[1], dataset.shape[2]);
  if (augment.shift < 0 || augment.shift >= side)
    throw BadInput("augment shift {}: expected 0 to {}, less than the images' {} x {} pixels",
                   augment.shift, side - 1, dataset.shape[1], dataset.shape[2]);
}

void require_fitting(const Dataset& dataset, const Normalization& normalization) {
  const auto channels = static_cast<size_t>(channels_of(dataset.shape));
  const size_t means = normalization.mean.size();
  const size_t deviations = normalization.deviation.size();
  if (means != deviations || (means != 0 && means != channels))
    throw BadInput(
        "normalization has {} mean(s) and {} deviation(s): expected one for each of the "
        "{} channel(s), or none",
        means, deviations, channels);
  for (const float deviation : normalization.deviation)
    if (!(deviation > 0))
      throw BadInput("normalization deviation {}: expected more than 0", deviation);
}

}  // namespace

SampleWriter::SampleWriter(const Dataset& dataset, const LoaderOptions& options)
    : dataset_(dataset),
      augment_(options.augment),
      seed_(options.seed),
      elements_(elements(dataset.shape)),
      channels_(static_cast<size_t>(channels_of(dataset.shape))) {
  require_fitting(dataset, options.augment);
  require_fitting(dataset, options.normalization);
  for (size_t i = 0; i < channels_.size(); ++i) {
    const bool given = !options.normalization.mean.empty();
    const double mean = given ? options.normalization.mean[i] : 0;
    const double deviation = given ? options.normalization.deviation[i] : 1;
    channels_[i].scale = static_cast<float>(1 / (255 * deviation));
    channels_[i].bias = static_cast<float>(-mean / deviation);
    channels_[i].mean = static_cast<float>(mean);
    channels_[i].inverse = static_cast<float>(1 / deviation);
  }
  std::visit(
      [&](const auto& values) {
        changed_ = std::remove_cvref_t<decltype(values)>(static_cast<size_t>(elements_));
      },
      dataset.values);
}

void SampleWriter::normalize(const Channel& channel, const uint8_t* from, int64_t count,
                             float* to) {
  const float scale = channel.scale;
  const float bias = channel.bias;
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]) * scale + bias;
}

void SampleWriter::normalize(const Channel& channel, const float* from, int64_t count, float* to) {
  const float mean = channel.mean;
  const float inverse = channel.inverse;
  for (int64_t i = 0; i < count; ++i) to[i] = (from[i] - mean) * inverse;
}

template <typename T>
void SampleWriter::write_from(const std::vector<T>& values, int64_t epoch, int64_t sample,
                              float* to) {
  const T* from = values.data() + sample * elements_;
  const Change change = draw_change(augment_, seed_, epoch, sample);
  if (!change.none()) {
    T* changed = std::get<std::vector<T>>(changed_).data();
    copy_changed(change, dataset_.shape, from, changed);
    from = changed;
  }
  const int64_t plane = elements_ / static_cast<int64_t>(channels_.size());
  for (const Channel& channel : channels_) {
    normalize(channel, from, plane, to);
    from += plane;
    to += plane;
  }
}

void SampleWriter::write(int64_t epoch, int64_t sample, float* to) {
  std::visit([&](const auto& values) { write_from(values, epoch, sample, to); }, dataset_.values);
}

}  // namespace lockstep::data
