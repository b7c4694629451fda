#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/dataset.h"

namespace lockstep::data {

enum class SampleOrder { shuffled, sequential };
enum class LastBatch { keep, drop };

/// Slices `first` .. `end`-1 of a batch that is divided into `of` slices: one worker's part, which
/// may be nothing.
struct Share {
  int64_t first = 0;
  int64_t end = 1;
  int64_t of = 1;
};

struct LoadedBatch;

/// Moves a batch to where it is used, such as a device's memory, in the loader's thread: at most
/// one batch ahead of the one in use. There are two places, 0 and 1; no batch is in use at the one
/// that the batch has.
using Deliver = std::function<void(const LoadedBatch&)>;

struct LoaderOptions {
  int64_t batch = 32;
  SampleOrder order = SampleOrder::shuffled;
  LastBatch last = LastBatch::keep;
  uint64_t seed = 1;  ///< of the sample order
  Share share = {};
  /// Batches prepared ahead of the one in use.
  int64_t prefetch = 3;
  /// Nothing: batches are used in the loader's memory.
  Deliver deliver = {};
};

/// A worker's share of one batch, in memory. Valid until the loader's next `next()`.
struct LoadedBatch {
  int64_t epoch = 0;
  int64_t index = 0;                              ///< within the epoch
  int64_t whole = 0;                              ///< samples of the whole batch
  int64_t whole_items = 0;                        ///< their weight in a mean
  int64_t begin = 0;                              ///< of the share, in the whole batch
  std::span<const int64_t> samples = {};          ///< positions in the data set
  std::span<const int64_t> items = {};            ///< the weight of each sample
  std::vector<std::span<std::byte>> fields = {};  ///< inputs, then targets; sample after sample
  int place = 0;                                  ///< see Deliver
};

/// The sample order of an epoch: a permutation of 0 .. size-1 keyed by (seed, epoch).
std::vector<int64_t> epoch_order(int64_t size, SampleOrder order, uint64_t seed, int64_t epoch);

/// Throws BadInput for a batch size below 1 or larger than the data set.
void check_batch(int64_t batch, const Dataset& dataset);

/// An endless stream of batches, epoch after epoch, prepared in a background thread.
///
///     Loader loader(splits.train, options);
///     loader.seek(epoch, batch);                  // optional: start elsewhere
///     for (...) { const LoadedBatch& batch = loader.next(); ... }
///
/// An error in the thread is rethrown by `next`.
class Loader {
 public:
  /// Throws BadInput if a batch is larger than the data set.
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  int64_t batches_per_epoch() const;

  /// Makes this the next batch; an index past the epoch's end continues in the next epoch. The
  /// batch in use stays valid.
  void seek(int64_t epoch, int64_t index);

  const LoadedBatch& next();

 private:
  class Pipeline;
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace lockstep::data
