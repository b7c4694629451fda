#include "train/training_data.h"

#include <future>

#include "base/clock.h"

namespace lockstep::train {

std::shared_ptr<const TrainingData> load_training_data(const Recipe& recipe) {
  const Stopwatch stopwatch;
  auto loaded = std::make_shared<TrainingData>();
  loaded->splits = data::load_without_digest(recipe.data.source);
  data::check_batch(recipe.train.batch, loaded->splits.train);
  // Both walk all of it: the one while the other does.
  auto digest = std::async(std::launch::async, [&] {
    return data::digest_of(loaded->splits.train, loaded->splits.test);
  });
  if (recipe.data.normalize)
    loaded->normalization = data::measure_normalization(loaded->splits.train);
  loaded->splits.digest = digest.get();
  loaded->load_seconds = stopwatch.seconds();
  return loaded;
}

}  // namespace lockstep::train
