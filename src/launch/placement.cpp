#include "launch/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <random>

#include "lockstep/error.h"
#include "net/socket.h"

namespace lockstep::launch {
namespace {

constexpr int kMostWorkers = 256;
constexpr int kMostNodes = 4096;

std::string random_key() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

std::string given_key() {
  const char* const given = std::getenv("LOCKSTEP_JOB_KEY");
  return given == nullptr ? "" : given;
}

std::string key_for(const PlacementFlags& flags) {
  if (flags.nodes() > 1 && given_key().empty())
    throw BadInput(
        "--nnodes {}: set LOCKSTEP_JOB_KEY to a secret, the same on all nodes (any process that "
        "knows it can join the job)",
        flags.nodes());
  return key_of_job();
}

}  // namespace

std::string key_of_job() {
  const std::string given = given_key();
  return given.empty() ? random_key() : given;
}

MasterAddress parse_master(const std::string& text) {
  const bool bracketed = text.starts_with('[');
  const size_t host_end = bracketed ? text.find(']') : std::min(text.rfind(':'), text.size());
  const std::string host = text.substr(bracketed ? 1 : 0, host_end - (bracketed ? 1 : 0));
  const size_t port_at = host_end + (bracketed ? 2 : 1);
  int port = kUsualPort;
  if (port_at < text.size()) {
    const auto [end, error] =
        std::from_chars(text.data() + port_at, text.data() + text.size(), port);
    if (error != std::errc() || end != text.data() + text.size()) port = 0;
  }
  if (host.empty() || port < 1 || port > 65535)
    throw BadInput("--master {}: expected HOST:PORT", text);
  return {host, static_cast<uint16_t>(port)};
}

void check(const PlacementFlags& flags) {
  if (flags.workers() < 1 || flags.workers() > kMostWorkers)
    throw BadInput("--workers {}: expected 1 to {}", flags.workers(), kMostWorkers);
  if (flags.nodes() < 1 || flags.nodes() > kMostNodes)
    throw BadInput("--nnodes {}: expected 1 to {}", flags.nodes(), kMostNodes);
  if (flags.node_rank() < 0 || flags.node_rank() >= flags.nodes())
    throw BadInput("--node-rank {}: expected 0 to {}{}", flags.node_rank(), flags.nodes() - 1,
                   flags.asked_nodes ? "" : "; set the number of nodes with --nnodes N");
  if (flags.nodes() == 1) return;
  if (flags.master.empty())
    throw BadInput("--nnodes {}: give the address of node 0, --master HOST:PORT", flags.nodes());
  if (!flags.asked_node_rank)
    throw BadInput("--nnodes {}: give the number of this node, --node-rank 0 to {}", flags.nodes(),
                   flags.nodes() - 1);
}

void check_against(const PlacementFlags& flags, const Job& launched) {
  const bool other_world = (flags.asked_workers || flags.asked_nodes) &&
                           flags.workers() * flags.nodes() != launched.world;
  const bool other_node = flags.asked_node_rank &&
                          launched.rank / std::max(1, flags.workers()) != *flags.asked_node_rank;
  if (!other_world && !other_node && flags.master.empty()) return;
  throw BadInput(
      "--{}: {} started this process as rank {} of {}, with rank 0 at {}:{}; leave --workers, "
      "--nnodes, --node-rank and --master out, or unset the launcher's variables",
      other_world  ? fmt::format("workers {} --nnodes {}", flags.workers(), flags.nodes())
      : other_node ? fmt::format("node-rank {}", flags.node_rank())
                   : fmt::format("master {}", flags.master),
      launched.launcher == "torchrun's variables" ? "the launcher (RANK, WORLD_SIZE)"
                                                  : launched.launcher,
      launched.rank, launched.world, launched.master_host, launched.master_port);
}

std::vector<Job> jobs_here(const PlacementFlags& flags) {
  check(flags);
  const MasterAddress master = flags.master.empty() ? MasterAddress{"127.0.0.1", net::free_port()}
                                                    : parse_master(flags.master);
  const std::string key = key_for(flags);
  std::vector<Job> jobs;
  for (int local = 0; local < flags.workers(); ++local)
    jobs.push_back({.rank = flags.node_rank() * flags.workers() + local,
                    .world = flags.nodes() * flags.workers(),
                    .local_rank = local,
                    .master_host = master.host,
                    .master_port = master.port,
                    .key = key,
                    .launcher = "lockstep"});
  return jobs;
}

std::vector<std::pair<std::string, std::string>> environment_of(const Job& job, int local_world) {
  return {{"RANK", fmt::format("{}", job.rank)},
          {"WORLD_SIZE", fmt::format("{}", job.world)},
          {"LOCAL_RANK", fmt::format("{}", job.local_rank)},
          {"LOCAL_WORLD_SIZE", fmt::format("{}", local_world)},
          {"MASTER_ADDR", job.master_host},
          {"MASTER_PORT", fmt::format("{}", job.master_port)},
          {"LOCKSTEP_JOB_KEY", job.key}};
}

}  // namespace lockstep::launch
