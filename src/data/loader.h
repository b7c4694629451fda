#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace lockstep::data {

/// Random changes to a training image. The numbers are keyed by (seed, epoch, sample), so a sample
/// looks the same in an epoch whichever worker or thread reads it.
struct Augment {
  bool flip = false;  ///< mirror left-right with probability one half
  /// Move by up to this many pixels each way; what is uncovered is black: 0 before normalization.
  int64_t shift = 0;
};

/// y = (x - mean) / deviation, per channel (the first dimension of a 3-D sample; any other sample
/// has one channel).
struct Normalization {
  std::vector<float> mean;
  std::vector<float> deviation;
};

/// The channels of a sample that are normalized apart.
int64_t channels_of(const Shape& shape);

/// Mean and deviation of a data set's channels, the same to the last bit every time. A channel that
/// never changes gets a deviation of 1.
Normalization measure_normalization(const Dataset& dataset);

enum class Order { shuffled, sequential };
enum class LastBatch { keep, drop };

/// Slices `first` .. `end`-1 of a batch cut into `of`: what one worker reads of it.
struct Share {
  int64_t first = 0;
  int64_t end = 1;
  int64_t of = 1;
};

struct LoaderOptions {
  int64_t batch = 32;
  Order order = Order::shuffled;
  LastBatch last = LastBatch::keep;
  uint64_t seed = 1;
  Augment augment;
  /// Empty: bytes are read as 0..1 and floats as they are.
  Normalization normalization;
  Share share;
  /// Batches made ready ahead of the one in use.
  int64_t prefetch = 3;
};

/// One batch, ready for the model. Valid until the loader's next `next()`.
struct Batch {
  int64_t epoch = 0;
  int64_t index = 0;                 ///< within the epoch
  int64_t whole = 0;                 ///< samples of the whole batch, of which this may be a share
  int64_t begin = 0;                 ///< where in the whole batch the share begins
  std::span<const int64_t> samples;  ///< positions in the data set
  std::span<float> values;           ///< samples one after another
  std::span<int64_t> labels;
};

/// The sample order of an epoch: a permutation of 0 .. size-1 keyed by (seed, epoch).
std::vector<int64_t> epoch_order(int64_t size, Order order, uint64_t seed, int64_t epoch);

/// Throws BadInput for a batch that a data set does not have.
void check_batch(int64_t batch, const Dataset& dataset);

/// An endless stream of batches, epoch after epoch, prepared in a background thread.
///
///     Loader loader(splits.train, options);
///     loader.seek(epoch, batch);                  // optional: start elsewhere
///     for (...) { const Batch& batch = loader.next(); ... }
///
/// The data set must outlive the loader. An error in the thread is rethrown by `next`.
class Loader {
 public:
  /// Throws BadInput when a batch is larger than the data set, or when the augmentation or the
  /// normalization do not fit its samples.
  Loader(const Dataset& dataset, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  int64_t batches_per_epoch() const;

  /// Makes this the next batch; an index past the epoch's end counts on into the next. The batch in
  /// use stays valid.
  void seek(int64_t epoch, int64_t index);

  const Batch& next();

 private:
  class Pipeline;
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace lockstep::data
