// What a ShardedOptimizer saves and loads: the same as the optimizer itself on one worker.
#include <fmt/ranges.h>
#include <torch/serialize.h>

#include <filesystem>
#include <sstream>
#include <utility>

#include "base/atomic_file.h"
#include "lockstep/error.h"
#include "parallel/sharded_update.h"

namespace lockstep {

using parallel::GroupedParameter;
using parallel::SavedOptimizer;
using torch::Tensor;

void ShardedUpdate::State::join(const SavedOptimizer& share, int rank,
                                SavedOptimizer& whole) const {
  std::vector<size_t> next(own_groups.size());
  for (const auto& [number, range] : pieces[static_cast<size_t>(rank)]) {
    const GroupedParameter& parameter = parameters[number];
    const auto& state = share.groups.at(parameter.group).states.at(next[parameter.group]++);
    auto& joined = whole.groups[parameter.group].states[parameter.index];
    if (!state) continue;
    if (divide == Divide::elements)
      parallel::join_state(*state, range, parameter.tensor, joined);
    else
      joined = state;
  }
}

// On rank 0: one rank's share at a time, so that it has no more than the whole and one share.
SavedOptimizer ShardedUpdate::State::joined() {
  const std::string what = "what this optimizer saves";
  const SavedOptimizer share = parallel::optimizer_of(parallel::bytes_of(*own), what);
  SavedOptimizer whole;
  for (size_t g = 0; g < own_groups.size(); ++g)
    whole.groups.push_back({share.groups.at(g).options, {}});
  for (const GroupedParameter& parameter : parameters)
    whole.groups[parameter.group].states.emplace_back();
  join(share, 0, whole);
  for (int rank = 1; rank < world.size(); ++rank) {
    Tensor size = torch::zeros({1}, torch::kLong);
    world.receive(size, rank);
    std::string bytes(static_cast<size_t>(size.item<int64_t>()), '\0');
    world.receive(
        torch::from_blob(bytes.data(), {static_cast<int64_t>(bytes.size())}, torch::kByte), rank);
    join(parallel::optimizer_of(bytes, what), rank, whole);
  }
  return whole;
}

void ShardedUpdate::State::send_share() {
  std::string bytes = parallel::bytes_of(*own);
  const auto size = static_cast<int64_t>(bytes.size());
  world.send(torch::full({1}, size, torch::kLong), 0);
  world.send(torch::from_blob(bytes.data(), {size}, torch::kByte), 0);
}

SavedOptimizer ShardedUpdate::State::own_share_of(const SavedOptimizer& whole) const {
  SavedOptimizer share;
  for (const SavedOptimizer::Group& group : whole.groups)
    share.groups.push_back({group.options, {}});
  for (const auto& [number, range] : own_pieces()) {
    const GroupedParameter& parameter = parameters[number];
    const auto& state = whole.groups[parameter.group].states[parameter.index];
    auto& states = share.groups[parameter.group].states;
    if (state && divide == Divide::elements)
      states.emplace_back(parallel::cut_state(*state, range, parameter.tensor));
    else
      states.push_back(state);
  }
  return share;
}

void ShardedUpdate::save(torch::serialize::OutputArchive& archive) const {
  State& state = *state_of_share_;
  state.fail_stop.run([&] {
    state.pass_on_options(param_groups_);
    if (state.world.rank() == 0)
      parallel::write_optimizer(state.joined(), archive);
    else
      state.send_share();
  });
}

void ShardedUpdate::save_to(const std::string& path) const {
  torch::serialize::OutputArchive archive;
  save(archive);
  state_of_share_->fail_stop.run([&] {
    if (state_of_share_->world.rank() == 0) {
      std::ostringstream stream;
      archive.save_to(stream);
      write_file_atomically(path, std::move(stream).str());
    }
    state_of_share_->world.barrier();
  });
}

namespace {

std::string names_in(const parallel::ArchiveValues& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// By the names of options: LibTorch writes no names of classes.
void require_same_kind(const SavedOptimizer& saved, const ShardedUpdate::Groups& groups) {
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::string own = names_in(parallel::values_of(groups[g].options()));
    const std::string theirs = names_in(saved.groups[g].options);
    if (!own.empty() && own != theirs)
      throw BadInput(
          "the archive is that of another kind of optimizer: it has the options {}, and this "
          "optimizer {}; load it with the kind that saved it, or begin with a new state",
          theirs, own);
  }
}

}  // namespace

void ShardedUpdate::load_from(const std::string& path) {
  torch::serialize::InputArchive archive;
  try {
    archive.load_from(path);
  } catch (const c10::Error& error) {
    throw BadInput(
        "ShardedOptimizer cannot load '{}': {}; every worker needs to read the file that rank 0 "
        "wrote by save_to",
        path,
        std::filesystem::exists(path) ? error.what_without_backtrace() : "there is no such file");
  }
  load(archive);
}

void ShardedUpdate::load(torch::serialize::InputArchive& archive) {
  State& state = *state_of_share_;
  const SavedOptimizer whole = parallel::read_optimizer(archive, "the archive");
  if (whole.groups.size() != param_groups_.size())
    throw BadInput("the archive has {} parameter groups, but this optimizer has {}",
                   whole.groups.size(), param_groups_.size());
  for (size_t g = 0; g < whole.groups.size(); ++g)
    if (whole.groups[g].states.size() != param_groups_[g].params().size())
      throw BadInput("group {} of the archive has {} parameters, but this optimizer's has {}", g,
                     whole.groups[g].states.size(), param_groups_[g].params().size());
  require_same_kind(whole, param_groups_);
  state.pass_on_options(param_groups_);
  parallel::load_optimizer(state.own_share_of(whole), *state.own);
  const torch::Device device = state.parameters.front().tensor.device();
  if (!device.is_cpu()) parallel::move_state_to(device, *state.own);
  for (size_t g = 0; g < param_groups_.size(); ++g)
    param_groups_[g].set_options(state.own->param_groups()[g].options().clone());
}

}  // namespace lockstep
