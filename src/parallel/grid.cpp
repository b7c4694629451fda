#include "parallel/grid.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "collective/communicator.h"
#include "parallel/named_tensors.h"
#include "pipeline/workers.h"

namespace lockstep::parallel {
namespace {

collective::Buffer buffer_of_numbers(std::vector<double>& numbers) {
  return {reinterpret_cast<std::byte*>(numbers.data()), static_cast<int64_t>(numbers.size()),
          Type::f64};
}

}  // namespace

Grid::Grid(World everyone, const pipeline::PipelineShape& shape)
    : shape_(shape),
      pipelines_(pipelines_of(shape, everyone.size())),
      members_(everyone.size() / pipelines_),
      pipeline_(everyone.rank() / members_) {
  const int stage = everyone.rank() % members_;
  for (int part = 0; part < shape_.parts(); ++part)
    if (members_ == 1 || shape_.stage_of(part) == stage) parts_.push_back(part);
  if (shape_.stages == 1 || members_ == 1) {
    replicas_.assign(parts_.size(), everyone);
    return;
  }
  // Each part reduces its gradients in an order of its own.
  replicas_.push_back(*everyone.split(stage, pipeline_));
  while (replicas_.size() < parts_.size()) replicas_.push_back(replicas_.front().duplicate());
  pipeline_world_ = everyone.split(pipeline_, stage);
}

bool Grid::has_part(int part) const {
  return std::ranges::find(parts_, part) != parts_.end();
}

World& Grid::replicas(int part) {
  return replicas_[static_cast<size_t>(std::ranges::find(parts_, part) - parts_.begin())];
}

std::vector<World> Grid::worlds() const {
  std::vector<World> all = replicas_;
  if (pipeline_world_) all.push_back(*pipeline_world_);
  return all;
}

void Grid::share_from_last(std::vector<double>& numbers) {
  if (pipeline_world_)
    pipeline_world_->communicator().broadcast(buffer_of_numbers(numbers), shape_.stages - 1);
}

Tensors Grid::shared_from_last(const Tensors& tensors) {
  const Tensors own = moved(tensors, c10::kCPU);
  if (!pipeline_world_) return own;
  const int last = shape_.stages - 1;
  nlohmann::json header = nlohmann::json::array();
  for (const auto& [name, tensor] : own)
    header.push_back({name, static_cast<int>(tensor.scalar_type()), tensor.sizes().vec()});
  header = nlohmann::json::parse(pipeline_world_->broadcast(header.dump(), last));
  std::vector<Tensors::Item> shared;
  for (const auto& row : header) {
    const bool has_it = pipeline_world_->rank() == last;
    const at::Tensor tensor =
        has_it ? (own.begin() + static_cast<ptrdiff_t>(shared.size()))->second.contiguous()
               : torch::empty(row[2].get<std::vector<int64_t>>(),
                              static_cast<at::ScalarType>(row[1].get<int>()));
    if (tensor.numel() > 0) pipeline_world_->broadcast(tensor, last);
    shared.emplace_back(row[0].get<std::string>(), tensor);
  }
  return Tensors(std::move(shared));
}

void Grid::add_up(std::vector<double>& numbers) {
  if (pipeline_world_) pipeline_world_->communicator().all_reduce(buffer_of_numbers(numbers));
}

std::vector<std::string> Grid::gathered(std::vector<std::string> texts) {
  if (!pipeline_world_) return texts;
  std::vector<std::string> all;
  for (const std::string& each : pipeline_world_->all_gather(nlohmann::json(texts).dump()))
    for (const auto& text : nlohmann::json::parse(each)) all.push_back(text);
  return all;
}

std::vector<std::byte> Grid::joined_on_first(std::vector<std::byte> bytes) {
  if (!pipeline_world_) return bytes;
  collective::Communicator& group = pipeline_world_->communicator();
  const std::vector<std::string> sizes = gathered({fmt::format("{}", bytes.size())});
  const auto buffer = [](std::byte* data, size_t size) {
    return collective::Buffer{data, static_cast<int64_t>(size), Type::u8};
  };
  if (group.rank() > 0) {
    if (!bytes.empty()) group.send(buffer(bytes.data(), bytes.size()), 0);
    return {};
  }
  for (int stage = 1; stage < group.world_size(); ++stage) {
    const size_t begin = bytes.size(), size = std::stoull(sizes[static_cast<size_t>(stage)]);
    bytes.resize(begin + size);
    if (size > 0) group.receive(buffer(bytes.data() + begin, size), stage);
  }
  return bytes;
}

std::vector<World> PartLinks::worlds() const {
  std::vector<World> all;
  for (const auto& link : {inputs, outputs, output_gradients, gradients})
    if (link)
      if (std::optional<World> world = link->world()) all.push_back(std::move(*world));
  return all;
}

std::vector<PartLinks> link_parts(const Grid& grid, World everyone,
                                  const std::vector<c10::Device>& devices) {
  const std::vector<int>& parts = grid.parts();
  std::vector<PartLinks> links(parts.size());
  const auto at = [&](int part) {
    return static_cast<size_t>(std::ranges::find(parts, part) - parts.begin());
  };
  // The link from one part to another: a sender and a receiver in every pipeline.
  const auto link = [&](int from, int to) -> std::shared_ptr<StageLink> {
    const bool sends = grid.has_part(from), receives = grid.has_part(to);
    if (sends && receives) return make_local_link(devices[at(to)]);
    const bool takes_part = sends || receives;
    std::optional<World> pair = everyone.split(takes_part ? grid.pipeline() : -1, receives ? 1 : 0);
    if (!takes_part) return nullptr;
    pair->communicator().set_cargo(collective::Cargo::Kind::activations);
    return make_remote_link(std::move(*pair), devices[at(sends ? from : to)]);
  };
  const int last = grid.shape().parts() - 1;
  for (size_t i = 0; i < parts.size(); ++i)
    links[i].last_is_here = grid.has_part(last) && devices[i] == devices[at(last)];
  for (int part = 0; part < last; ++part) {
    const std::shared_ptr<StageLink> forwards = link(part, part + 1);
    const std::shared_ptr<StageLink> backwards = link(part + 1, part);
    if (grid.has_part(part)) {
      links[at(part)].outputs = forwards;
      links[at(part)].output_gradients = backwards;
    }
    if (grid.has_part(part + 1)) {
      links[at(part + 1)].inputs = forwards;
      links[at(part + 1)].gradients = backwards;
    }
  }
  return links;
}

}  // namespace lockstep::parallel
