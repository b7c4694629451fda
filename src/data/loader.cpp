#include "data/loader.h"

#include <algorithm>
#include <utility>

#include "base/range.h"
#include "data/order.h"
#include "data/prefetcher.h"
#include "data/sample_writer.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

void require_whole(const Dataset& dataset) {
  const auto values =
      std::visit([](const auto& all) { return static_cast<int64_t>(all.size()); }, dataset.values);
  if (values != dataset.size() * elements(dataset.shape))
    throw BadInput("data set of {} labels and shape {} has {} values: expected {}", dataset.size(),
                   to_string(dataset.shape), values, dataset.size() * elements(dataset.shape));
}

void require_usable(const Dataset& dataset, const LoaderOptions& options) {
  check_batch(options.batch, dataset);
  const Share& share = options.share;
  if (share.first < 0 || share.first >= share.end || share.end > share.of)
    throw BadInput("share {} .. {} of {}: expected slices of the batch", share.first, share.end,
                   share.of);
  if (options.prefetch < 0 || options.prefetch > 1024)
    throw BadInput("prefetch {}: expected 0 to 1024 batches", options.prefetch);
  require_whole(dataset);
}

}  // namespace

void check_batch(int64_t batch, const Dataset& dataset) {
  if (batch < 1) throw BadInput("batch {}: expected at least 1", batch);
  if (batch > dataset.size())
    throw BadInput(
        "batch {}: larger than the training set of {} samples; use a batch of at most "
        "{}, or more data",
        batch, dataset.size(), dataset.size());
}

class Loader::Pipeline {
 public:
  Pipeline(const Dataset& dataset, LoaderOptions options)
      : dataset_(dataset),
        options_(std::move(options)),
        writer_(dataset_, options_),
        order_(static_cast<size_t>(dataset_.size())),
        prefetcher_(make_buffers(), batches_per_epoch(),
                    [this](Position at, BatchBuffer& buffer) { fill(at, buffer); }) {}

  int64_t batches_per_epoch() const {
    const int64_t rest = options_.last == LastBatch::keep ? options_.batch - 1 : 0;
    return (dataset_.size() + rest) / options_.batch;
  }

  void seek(Position position) { prefetcher_.seek(position); }
  const Batch& next() { return prefetcher_.next(); }

 private:
  std::vector<BatchBuffer> make_buffers() const {
    const auto batch = static_cast<size_t>(options_.batch);
    BatchBuffer buffer;
    buffer.samples.resize(batch);
    buffer.values.resize(batch * static_cast<size_t>(elements(dataset_.shape)));
    buffer.labels.resize(batch);
    return std::vector<BatchBuffer>(static_cast<size_t>(options_.prefetch) + 1, buffer);
  }

  // In the prefetcher's thread, as is everything it changes.
  void fill(Position at, BatchBuffer& buffer) {
    if (at.epoch != order_epoch_) {
      fill_epoch_order(order_, options_.order, options_.seed, at.epoch);
      order_epoch_ = at.epoch;
    }
    const int64_t whole = std::min(options_.batch, dataset_.size() - at.index * options_.batch);
    const Share& share = options_.share;
    const int64_t begin = slice(whole, share.of, share.first).begin;
    const int64_t count = slice(whole, share.of, share.end - 1).end - begin;
    const int64_t first = at.index * options_.batch + begin;
    const int64_t per_sample = elements(dataset_.shape);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t sample = order_[static_cast<size_t>(first + i)];
      buffer.samples[static_cast<size_t>(i)] = sample;
      buffer.labels[static_cast<size_t>(i)] = dataset_.labels[static_cast<size_t>(sample)];
      writer_.write(at.epoch, sample, buffer.values.data() + i * per_sample);
    }
    const auto used = static_cast<size_t>(count);
    buffer.batch = {at.epoch,
                    at.index,
                    whole,
                    begin,
                    std::span(buffer.samples).first(used),
                    std::span(buffer.values).first(used * static_cast<size_t>(per_sample)),
                    std::span(buffer.labels).first(used)};
  }

  // Constant after construction.
  const Dataset& dataset_;
  const LoaderOptions options_;

  // Used by the prefetcher's thread only.
  SampleWriter writer_;
  std::vector<int64_t> order_;
  int64_t order_epoch_ = -1;

  Prefetcher prefetcher_;  // last: its thread uses all of the above
};

Loader::Loader(const Dataset& dataset, LoaderOptions options) {
  require_usable(dataset, options);
  pipeline_ = std::make_unique<Pipeline>(dataset, std::move(options));
}

Loader::~Loader() = default;

int64_t Loader::batches_per_epoch() const {
  return pipeline_->batches_per_epoch();
}

void Loader::seek(int64_t epoch, int64_t index) {
  if (epoch < 0 || index < 0)
    throw BadInput("seek to epoch {}, batch {}: expected at least 0", epoch, index);
  pipeline_->seek({epoch + index / batches_per_epoch(), index % batches_per_epoch()});
}

const Batch& Loader::next() {
  return pipeline_->next();
}

}  // namespace lockstep::data
