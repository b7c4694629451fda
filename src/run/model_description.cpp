#include "run/model_description.h"

#include <map>
#include <utility>

#include "base/element.h"
#include "lockstep/error.h"
#include "run/checkpoints.h"
#include "run/events.h"

namespace lockstep::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKey = "lockstep.model";

Json to_json(const Field& field) {
  return {{"name", field.name},
          {"type", name_of(field.type)},
          {"shape", field.shape},
          {"categories", field.categories}};
}

Field field_from(const Json& from) {
  return {.name = from.at("name"),
          .type = parse_type(from.at("type")),
          .shape = from.at("shape"),
          .categories = from.at("categories")};
}

Options options_from(const Json& from, const char* table) {
  return Options(from.get<std::map<std::string, std::string>>(), table);
}

// Files of earlier versions lack it.
data::HoldOut hold_out_from(const Json& from) {
  if (from.is_null()) return {};
  return {.test_fraction = from.at("test_fraction"),
          .validation_fraction = from.at("validation_fraction"),
          .seed = from.at("seed")};
}

Json to_json(const data::HoldOut& hold_out) {
  return {{"test_fraction", hold_out.test_fraction},
          {"validation_fraction", hold_out.validation_fraction},
          {"seed", hold_out.seed}};
}

ModelDescription description_from(const Json& from) {
  ModelDescription about{
      .name = from.at("name"),
      .options = options_from(from.at("options"), "model.options"),
      .kernels = from.at("kernels"),
      .precision = from.value("precision", "fp32"),
      .threads = from.at("threads"),
      .objective = from.at("objective"),
      .objective_options = options_from(from.at("objective_options"), "objective.options"),
      .data = from.at("data"),
      .data_options = options_from(from.at("data_options"), "data.options"),
      .hold_out = hold_out_from(from.value("hold_out", Json())),
      .data_sha256 = from.value("data_sha256", "")};
  constexpr int64_t kMostThreads = 256;
  if (about.threads < 1 || about.threads > kMostThreads)
    throw BadInput("its description of the model has {} threads: expected 1 to {}", about.threads,
                   kMostThreads);
  for (const Json& input : from.at("inputs")) {
    about.fields.inputs.push_back(field_from(input));
    about.normalization.push_back({input.at("mean"), input.at("deviation")});
  }
  for (const Json& target : from.at("targets")) about.fields.targets.push_back(field_from(target));
  return about;
}

ModelFile read_model(const fs::path& path, Safetensors contents) {
  ModelDescription about = description_of(contents, path);
  return {path, std::move(contents), std::move(about)};
}

}  // namespace

Metadata to_metadata(const ModelDescription& about) {
  Json inputs = Json::array();
  Json targets = Json::array();
  for (size_t i = 0; i < about.fields.inputs.size(); ++i) {
    inputs.push_back(to_json(about.fields.inputs[i]));
    inputs.back()["mean"] = about.normalization[i].mean;
    inputs.back()["deviation"] = about.normalization[i].deviation;
  }
  for (const Field& target : about.fields.targets) targets.push_back(to_json(target));
  return {{kKey, Json{{"name", about.name},
                      {"options", about.options.values()},
                      {"kernels", about.kernels},
                      {"precision", about.precision},
                      {"threads", about.threads},
                      {"objective", about.objective},
                      {"objective_options", about.objective_options.values()},
                      {"data", about.data},
                      {"data_options", about.data_options.values()},
                      {"hold_out", to_json(about.hold_out)},
                      {"data_sha256", about.data_sha256},
                      {"inputs", inputs},
                      {"targets", targets}}
                     .dump()}};
}

ModelDescription description_of(const Safetensors& file, const fs::path& path) {
  const auto found = file.metadata.find(kKey);
  if (found == file.metadata.end())
    throw BadInput(
        "{}: does not say which model it is: expected a run's folder, or a file that `lockstep "
        "train` has written; to use weights of another program, train from them (--weights)",
        path.string());
  try {
    return description_from(Json::parse(found->second));
  } catch (const BadInput& error) {
    throw BadInput("{}: {}", path.string(), error.what());
  } catch (const Json::exception& error) {
    throw BadInput(
        "{}: its description of the model cannot be read ({}); another version of "
        "Lockstep wrote it",
        path.string(), error.what());
  }
}

ModelFile open_model(const fs::path& run_or_file) {
  if (!fs::exists(run_or_file)) throw BadInput("{}: no such run or file", run_or_file.string());
  if (!fs::is_directory(run_or_file)) return read_model(run_or_file, read_safetensors(run_or_file));
  const fs::path finished = run_or_file / "model.safetensors";
  if (fs::exists(finished)) return read_model(finished, read_safetensors(finished));
  auto newest = Checkpoints(run_or_file / "checkpoints").newest();
  if (!newest)
    throw BadInput(
        "{}: has neither model.safetensors nor a checkpoint: expected the folder of a run that has "
        "finished, or at least an epoch of it",
        run_or_file.string());
  return read_model(newest->path, std::move(newest->state));
}

}  // namespace lockstep::run
