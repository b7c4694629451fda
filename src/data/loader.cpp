#include "data/loader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/range.h"
#include "data/dataset.h"
#include "data/prefetcher.h"
#include "device/random.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

void check_options(const Dataset& dataset, const LoaderOptions& options) {
  check_batch(options.batch, dataset);
  const Share& share = options.share;
  if (share.first < 0 || share.first > share.end || share.end > share.of)
    throw BadInput("share {} .. {} of {}: expected a range of slices of the batch", share.first,
                   share.end, share.of);
  if (options.prefetch < 0 || options.prefetch > 1024)
    throw BadInput("prefetch {}: expected 0 to 1024 batches", options.prefetch);
}

void fill_epoch_order(std::span<int64_t> into, SampleOrder order, uint64_t seed, int64_t epoch) {
  std::iota(into.begin(), into.end(), int64_t{0});
  if (order == SampleOrder::sequential) return;
  // Fisher-Yates: every permutation is equally likely.
  RandomStream stream(Purpose::shuffle, seed, epoch);
  for (size_t left = into.size(); left > 1; --left)
    std::swap(into[left - 1], into[stream.below(left)]);
}

}  // namespace

std::vector<int64_t> epoch_order(int64_t size, SampleOrder order, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> samples(static_cast<size_t>(size));
  fill_epoch_order(samples, order, seed, epoch);
  return samples;
}

void check_batch(int64_t batch, const Dataset& dataset) {
  if (batch < 1) throw BadInput("batch {}: expected at least 1", batch);
  if (const int64_t size = dataset.size(); batch > size)
    throw BadInput(
        "batch {}: larger than the training set of {} samples; use a batch of at most "
        "{}, or more data",
        batch, size, size);
}

class Loader::Pipeline {
 public:
  Pipeline(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
      : dataset_(std::move(dataset)),
        options_(options),
        size_(dataset_->size()),
        fields_(dataset_->fields()),
        order_(static_cast<size_t>(size_)),
        memory_(fields_.count()),
        prefetcher_(
            make_buffers(), batches_per_epoch(),
            [this](BatchPosition at, BatchBuffer& buffer) { fill(at, buffer); }, options_.deliver) {
  }

  int64_t batches_per_epoch() const {
    const int64_t rest = options_.last == LastBatch::keep ? options_.batch - 1 : 0;
    return (size_ + rest) / options_.batch;
  }

  void seek(BatchPosition position) { prefetcher_.seek(position); }
  const LoadedBatch& next() { return prefetcher_.next(); }

 private:
  std::vector<BatchBuffer> make_buffers() const {
    const int64_t most = share_of(options_.batch).size();
    std::vector<BatchBuffer> buffers(static_cast<size_t>(options_.prefetch) + 1);
    for (BatchBuffer& buffer : buffers) {
      buffer.samples.resize(static_cast<size_t>(most));
      buffer.items.resize(static_cast<size_t>(most));
      for (size_t i = 0; i < fields_.count(); ++i)
        buffer.fields.emplace_back(static_cast<size_t>(most * bytes_of(fields_[i])));
    }
    return buffers;
  }

  // This loader's part of a batch of `whole` samples.
  Range share_of(int64_t whole) const {
    const Share& share = options_.share;
    const int64_t begin = slice(whole, share.of, share.first).begin;
    return {begin, share.first == share.end ? begin : slice(whole, share.of, share.end - 1).end};
  }

  // Runs in the prefetcher's thread, which alone uses what it changes.
  void fill(BatchPosition at, BatchBuffer& buffer) {
    if (at.epoch != order_epoch_) begin_epoch(at.epoch);
    const int64_t first = at.index * options_.batch;
    const int64_t whole = std::min(options_.batch, size_ - first);
    const Range share = share_of(whole);
    int64_t whole_items = 0;
    for (int64_t i = 0; i < whole; ++i) {
      const int64_t sample = order_[static_cast<size_t>(first + i)];
      const int64_t items = items_of(*dataset_, sample);
      whole_items += items;
      if (i < share.begin || i >= share.end) continue;
      const auto place = static_cast<size_t>(i - share.begin);
      buffer.samples[place] = sample;
      buffer.items[place] = items;
      write(at.epoch, sample, place, buffer);
    }
    const auto used = static_cast<size_t>(share.size());
    LoadedBatch& batch = buffer.batch;
    batch = {.epoch = at.epoch,
             .index = at.index,
             .whole = whole,
             .whole_items = whole_items,
             .begin = share.begin,
             .samples = std::span(buffer.samples).first(used),
             .items = std::span(buffer.items).first(used),
             .fields = std::move(batch.fields)};
    batch.fields.resize(fields_.count());
    for (size_t i = 0; i < fields_.count(); ++i)
      batch.fields[i] =
          std::span(buffer.fields[i]).first(used * static_cast<size_t>(bytes_of(fields_[i])));
  }

  void begin_epoch(int64_t epoch) {
    if (const int64_t size = dataset_->size(); size != size_)
      throw BadInput("data: the data set's size was {} and is {} now; it must stay the same", size_,
                     size);
    if (dataset_->fields() != fields_)
      throw BadInput("data: the data set's fields have changed; they must stay the same");
    fill_epoch_order(order_, options_.order, options_.seed, epoch);
    order_epoch_ = epoch;
  }

  void write(int64_t epoch, int64_t sample, size_t place, BatchBuffer& buffer) {
    for (size_t i = 0; i < fields_.count(); ++i) {
      const auto bytes = static_cast<size_t>(bytes_of(fields_[i]));
      memory_[i] = std::span(buffer.fields[i]).subspan(place * bytes, bytes);
    }
    write_sample(*dataset_, sample, epoch, memory_);
  }

  // Constant after construction.
  const std::shared_ptr<const Dataset> dataset_;
  const LoaderOptions options_;
  const int64_t size_;
  const Fields fields_;

  // Used by the prefetcher's thread only.
  std::vector<int64_t> order_;
  int64_t order_epoch_ = -1;
  std::vector<std::span<std::byte>> memory_;  ///< of one sample, by field

  Prefetcher prefetcher_;  // last: its thread uses all of the above
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options) {
  check_options(*dataset, options);
  pipeline_ = std::make_unique<Pipeline>(std::move(dataset), options);
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

const LoadedBatch& Loader::next() {
  return pipeline_->next();
}

}  // namespace lockstep::data
