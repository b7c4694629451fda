#include "lockstep/world.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "base/nearest.h"
#include "launch/group.h"
#include "launch/own_process.h"
#include "parallel/world_of.h"
#include "parallel/world_state.h"

namespace lockstep {
namespace {

void tell(const std::string& message) {
  std::fputs(fmt::format("lockstep: {}\n", message).c_str(), stderr);
}

// What messages call the options, up to their values: as the caller has given them.
struct OptionNames {
  std::string transport = "WorldOptions::transport = ";
  std::string algorithm = "WorldOptions::algorithm = ";
};

std::string transport_of(const launch::Job& job, const WorldOptions& options,
                         const OptionNames& names) {
  try {
    return launch::resolve_transport(options.transport, job);
  } catch (const BadInput& unknown) {
    throw BadInput("{}{}", names.transport, unknown.what());
  }
}

launch::GroupOptions group_options(const launch::Job& job, const WorldOptions& options,
                                   const OptionNames& names) {
  return {.connect = {.transport = transport_of(job, options, names),
                      .silence_seconds = options.silence_seconds,
                      .meeting_seconds = options.meeting_seconds},
          .algorithm = options.algorithm,
          .algorithm_option = names.algorithm,
          .timeout_seconds = options.timeout_seconds,
          .stall_seconds = options.stall_seconds,
          .tell = tell};
}

double seconds_of(const std::string& flag, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), value);
  if (error != std::errc() || end != text.end() || !(value >= 0 && value <= 1e6))
    throw BadInput("{}={}: expected 0 to 1e6 seconds", flag, text);
  return value;
}

void apply(WorldOptions& options, OptionNames& names, const std::string& flag,
           std::string_view value) {
  const std::vector<std::string> flags = {"--lockstep-transport", "--lockstep-algorithm",
                                          "--lockstep-timeout",   "--lockstep-silence",
                                          "--lockstep-meeting",   "--lockstep-stall"};
  if (flag == flags[0]) {
    options.transport = value;
    names.transport = flag + "=";
  } else if (flag == flags[1]) {
    options.algorithm = value;
    names.algorithm = flag + "=";
  } else if (flag == flags[2]) {
    options.timeout_seconds = seconds_of(flag, value);
  } else if (flag == flags[3]) {
    options.silence_seconds = seconds_of(flag, value);
  } else if (flag == flags[4]) {
    options.meeting_seconds = seconds_of(flag, value);
  } else if (flag == flags[5]) {
    options.stall_seconds = seconds_of(flag, value);
  } else {
    throw BadInput("unknown flag '{}'{}; there are: {}", flag, did_you_mean(flag, flags),
                   fmt::join(flags, ", "));
  }
}

}  // namespace

World world_of(std::unique_ptr<collective::Communicator> group, int local_rank) {
  return World(std::make_shared<World::State>(World::State{std::move(group), local_rank}));
}

int World::rank() const {
  return state_->group->rank();
}

int World::size() const {
  return state_->group->world_size();
}

int World::local_rank() const {
  return state_->local_rank;
}

int64_t World::bytes_sent() const {
  return state_->group->bytes_sent();
}

World World::duplicate() {
  return world_of(state_->group->split(0, rank()), local_rank());
}

std::optional<World> World::split(int color, int key) {
  std::unique_ptr<collective::Communicator> part = state_->group->split(color, key);
  if (!part) return std::nullopt;
  return world_of(std::move(part), local_rank());
}

void World::abort(const std::string& why) noexcept {
  state_->group->abort(why);
}

collective::Communicator& World::communicator() {
  return *state_->group;
}

namespace {

World join(const WorldOptions& options, const OptionNames& names) {
  const std::optional<launch::Job> launched = launch::job_from_environment();
  if (launched) launch::become_rank(launched->rank);
  const launch::Job job = launched.value_or(launch::Job{});
  return world_of(launch::join_group(job, group_options(job, options, names)), job.local_rank);
}

}  // namespace

World init(const WorldOptions& options) {
  launch::end_by_uncaught_errors();
  return join(options, {});
}

World init(int& argc, char** argv, WorldOptions options) {
  launch::end_by_uncaught_errors();
  OptionNames names;
  int kept = 0;
  for (int i = 0; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (i == 0 || !word.starts_with("--lockstep-")) {
      argv[kept++] = argv[i];
      continue;
    }
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos)
      throw BadInput("{}: expected a value, as in {}=...", word, word);
    apply(options, names, std::string(word.substr(0, equals)), word.substr(equals + 1));
  }
  argv[kept] = nullptr;
  argc = kept;
  return join(options, names);
}

}  // namespace lockstep
