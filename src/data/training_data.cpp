#include "data/training_data.h"

#include <future>
#include <utility>

#include "base/clock.h"
#include "base/digest.h"
#include "data/datasets.h"
#include "data/hold_out.h"
#include "data/loader.h"

namespace lockstep::data {
namespace {

std::string digest_of(const Splits& splits) {
  Digest digest(Digest::Kind::sha256);
  digest.add(splits.train->digest());
  digest.add(splits.test->digest());
  return digest.hex();
}

}  // namespace

Splits load_splits(const DataOptions& options) {
  Splits splits = load_dataset(options.name, options.options);
  if (splits.test) return splits;
  Splits divided =
      hold_out(splits.train, options.test_fraction, static_cast<uint64_t>(options.hold_out_seed));
  divided.warnings = std::move(splits.warnings);
  return divided;
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
  data->splits = {normalized(augmented(splits.train, options.augment, seed), data->normalization),
                  normalized(splits.test, data->normalization), splits.warnings};
  data->fields = splits.train->fields();
  data->digest = digest.get();
  data->load_seconds = stopwatch.seconds();
  return data;
}

}  // namespace lockstep::data
