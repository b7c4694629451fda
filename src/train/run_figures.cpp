#include "train/run_figures.h"

#include <string>
#include <utility>
#include <vector>

#include "train/memory.h"

namespace lockstep::train {

using run::Json;

Json to_json(const observe::SpanTimes& times) {
  Json json = Json::object();
  for (size_t i = 0; i < observe::kSpanNames.size(); ++i)
    json[std::string(observe::kSpanNames[i])] = times.seconds[i];
  return json;
}

Json bytes_sent(collective::Communicator& group) {
  using collective::Cargo;
  return {{"gradients", group.bytes_sent(Cargo::Kind::gradients)},
          {"parameters", group.bytes_sent(Cargo::Kind::parameters)},
          {"buffers", group.bytes_sent(Cargo::Kind::buffers)},
          {"activations", group.bytes_sent(Cargo::Kind::activations)},
          {"other", group.bytes_sent(Cargo::Kind::other)}};
}

Json bytes_sent_by_all(collective::Communicator& group) {
  Json sum = bytes_sent(group);
  if (group.world_size() == 1) return sum;
  const std::vector<std::string> texts = group.gather_texts(sum.dump());
  for (auto& [kind, bytes] : sum.items()) {
    bytes = 0;
    for (const std::string& text : texts)
      bytes = bytes.get<int64_t>() + Json::parse(text).at(kind).get<int64_t>();
  }
  return sum;
}

Json memory_of_all(const Setup& setup) {
  const parallel::Grid& grid = *setup.grid;
  const int first_stage = grid.shape().stage_of(grid.parts().front());
  Json by_device = memory_by_stage(setup.devices, first_stage, setup.group);
  Json figures = {{"memory", largest_memory(by_device)}};
  if (grid.shape().stages > 1) {
    figures["memory_by_stage"] = by_device;
  } else if (by_device.size() > 1) {
    for (Json& device : by_device) device.erase("stages");
    figures["memory_by_device"] = std::move(by_device);
  }
  return figures;
}

Json times_of_stages(const Setup& setup, const observe::SpanTimes& spans) {
  const parallel::Grid& grid = *setup.grid;
  if (grid.is_whole()) return Json::object();
  Json own = to_json(spans);
  own["rank"] = setup.group.rank();
  own["stage"] = grid.shape().stage_of(grid.parts().front());
  Json all = Json::array();
  double waited = 0, computed = 0;
  for (const std::string& text : setup.group.gather_texts(own.dump())) {
    const Json& times = all.emplace_back(Json::parse(text));
    waited += times["exchange"].get<double>();
    computed += times["forward"].get<double>() + times["backward"].get<double>();
  }
  return {{"spans_by_stage", all}, {"bubble", waited / (waited + computed)}};
}

}  // namespace lockstep::train
