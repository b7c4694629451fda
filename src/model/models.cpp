#include "model/models.h"

#include <ATen/Context.h>
#include <fmt/ranges.h>

#include <functional>
#include <numeric>

#include "device/random.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

std::string names_of(const std::vector<Field>& fields) {
  std::vector<std::string> names;
  for (const Field& field : fields) names.push_back(fmt::format("'{}'", field.name));
  return fmt::format("{}", fmt::join(names, ", "));
}

int64_t elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

const Shape& ModelOptions::input() const {
  if (inputs.size() != 1)
    throw BadInput("model '{}': needs data with one input, but this has {}: {}", name,
                   inputs.size(), names_of(inputs));
  return inputs.front().shape;
}

int64_t ModelOptions::input_size() const {
  return elements(input());
}

int64_t ModelOptions::output_size() const {
  if (outputs.size() != 1)
    throw BadInput(
        "model '{}': has one output, but the objective expects {}: {}; use a model of your own, or "
        "another objective",
        name, outputs.size(), names_of(outputs));
  return elements(outputs.front().shape);
}

namespace model {

Table<ModelRow>& models() {
  static Table<ModelRow> table("model");
  return table;
}

nn::Kernels kernels_named(const std::string& name) {
  return name == "torch" ? nn::Kernels::torch : nn::Kernels::fused;
}

std::shared_ptr<Model> make_model(const ModelOptions& options, uint64_t seed) {
  const ModelRow& row = models().at(options.name);
  // LibTorch's layers draw their initial weights from the global generator.
  torch::manual_seed(RandomStream(Purpose::weights, seed).next());
  auto made = row.make(options);
  if (!made) throw BadInput("model '{}': its maker returned nullptr", options.name);
  options.options.refuse_unknown(fmt::format("model '{}'", options.name));
  return made;
}

void require_image(const ModelOptions& options, int64_t smallest) {
  const Shape& input = options.input();
  if (input.size() != 3)
    throw BadInput(
        "model '{}': needs images (channels x height x width), but a sample is {}; {}",
        options.name, fmt::join(input, " x "),
        input.size() == 2
            ? "add a channel to grey images, x[:, None]; series have convnet1d; mlp and logistic "
              "take any shape"
            : "videos have convnet3d; mlp and logistic take any shape");
  if (input[1] >= smallest && input[2] >= smallest) return;
  const bool channels_may_be_last = input[2] <= 4 && input[0] >= smallest;
  throw BadInput(
      "model '{}': needs images of at least {} x {} pixels, but a sample is {} (channels x height "
      "x width){}",
      options.name, smallest, smallest, fmt::join(input, " x "),
      channels_may_be_last ? "; if channels come last, set data.options.layout = \"channels_last\""
                           : "");
}

}  // namespace model
}  // namespace lockstep
