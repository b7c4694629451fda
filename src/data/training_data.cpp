#include "data/training_data.h"

#include <future>
#include <utility>

#include "base/clock.h"
#include "base/digest.h"
#include "data/datasets.h"
#include "data/loader.h"
#include "data/mixup.h"

namespace lockstep::data {

std::string digest_of(const Splits& splits) {
  Digest digest(Digest::Kind::sha256);
  digest.add(splits.train->digest());
  digest.add(splits.test->digest());
  if (splits.validation) digest.add(splits.validation->digest());
  return digest.hex();
}

Splits load_splits(const DataOptions& options) {
  return hold_out(load_dataset(options.name, options.options), options.hold_out);
}

std::shared_ptr<const TrainingData> load_training_data(const DataOptions& options, int64_t batch,
                                                       uint64_t seed) {
  const Stopwatch stopwatch;
  const Splits splits = load_splits(options);
  check_batch(batch, *splits.train);
  // Digest and normalization both read the data: the digest is computed in another thread.
  auto digest = std::async(std::launch::async, [&] { return digest_of(splits); });
  auto data = std::make_shared<TrainingData>();
  if (options.normalize) data->normalization = measure_normalization(*splits.train);
  data->normalization.resize(splits.train->fields().inputs.size());
  const auto as_read = [&](const std::shared_ptr<const Dataset>& split) {
    return split ? normalized(split, data->normalization) : nullptr;
  };
  data->splits = {
      mixed_up(as_read(augmented(splits.train, options.augment, seed)), options.mixup, seed),
      as_read(splits.test), as_read(splits.validation), splits.warnings};
  data->fields = splits.train->fields();
  data->digest = digest.get();
  data->load_seconds = stopwatch.seconds();
  return data;
}

}  // namespace lockstep::data
