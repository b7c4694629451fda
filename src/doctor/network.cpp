#include "doctor/network.h"

#include <fmt/format.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <future>
#include <memory>

#include "doctor/area.h"
#include "doctor/sources.h"
#include "launch/job.h"
#include "launch/placement.h"
#include "lockstep/error.h"
#include "net/socket.h"
#include "net/tcp_rendezvous.h"
#include "transport/transports.h"

namespace lockstep::doctor {
namespace {

constexpr double kLongest = 2;

// Binds and connects at a loopback address. Returns what failed.
std::string try_loopback(const std::string& host) {
  try {
    const net::Descriptor listener = net::listen_at(host, 0);
    const net::Address at = net::local_address(listener.get());
    if (at.host() != host) return fmt::format("{} is no address of this machine", host);
    const net::Descriptor socket = net::start_connecting(at);
    if (!socket) return fmt::format("cannot connect to {}: {}", at.text(), std::strerror(errno));
    pollfd wait = {.fd = socket.get(), .events = POLLOUT, .revents = 0};
    net::wait_for({&wait, 1}, kLongest);
    if (wait.revents == 0)
      return fmt::format("{} did not answer within {:g} s", at.text(), kLongest);
    if (const int error = net::connecting_error(socket.get()); error != 0)
      return fmt::format("cannot connect to {}: {}", at.text(), std::strerror(error));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// As a worker does it: meets the other one, makes or opens the shared memory, and writes to it.
std::string share_as_worker(int rank, uint16_t port, const std::string& key) {
  constexpr size_t kBytes = size_t{1} << 20;
  try {
    const auto all = net::rendezvous_over_tcp({.rank = rank,
                                               .world_size = 2,
                                               .host = "127.0.0.1",
                                               .port = port,
                                               .key = key,
                                               .timeout_seconds = kLongest});
    const auto transport =
        transport::transports().at("shm").connect(*all, {.key = key, .connect_seconds = kLongest});
    const transport::Memory memory = transport->allocate(kBytes);
    std::memset(memory.data.get(), 1, kBytes);
    all->gather("");  // a worker that leaves early would be missed
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string try_shared_memory() {
  const uint16_t port = net::free_port();
  const std::string key = launch::key_of_job();
  std::future<std::string> other =
      std::async(std::launch::async, [&] { return share_as_worker(1, port, key); });
  const std::string first = share_as_worker(0, port, key);
  const std::string second = other.get();
  return first.empty() ? second : first;
}

// Where this process is rank 0, or will start it. Wrong variables are reported elsewhere.
std::optional<std::string> try_master_port() {
  try {
    const std::optional<launch::Job> job = launch::job_from_environment();
    if (!job || job->rank != 0 || job->world == 1 || !job->spare_ports.empty()) return std::nullopt;
    net::listen_at(job->master_host, job->master_port);
    return "";
  } catch (const BadInput& error) {
    return variable("MASTER_PORT") ? std::optional<std::string>(error.what()) : std::nullopt;
  }
}

NetworkFacts gather_network() {
  NetworkFacts facts{.ipv4 = try_loopback("127.0.0.1"), .ipv6 = try_loopback("::1")};
  facts.shared_memory = facts.ipv4.empty() ? try_shared_memory() : "not tried without IPv4";
  facts.master_port = try_master_port();
  return facts;
}

Fact fact_of(const std::string& name, const std::string& failure, const std::string& success) {
  return {name,
          {{"works", failure.empty()}, {"failure", failure}},
          failure.empty() ? success : failure};
}

std::vector<Fact> facts_of(const NetworkFacts& facts) {
  std::vector<Fact> all = {
      fact_of("IPv4", facts.ipv4, "binds and connects on 127.0.0.1"),
      fact_of("IPv6", facts.ipv6, "binds and connects on ::1"),
      fact_of("shared memory", facts.shared_memory, "two workers met and shared 1 MiB each")};
  if (facts.master_port) all.push_back(fact_of("MASTER_PORT", *facts.master_port, "can be bound"));
  return all;
}

Section examine_network(const Visit& /*visit*/) {
  const NetworkFacts facts = gather_network();
  return {facts_of(facts), judge(facts)};
}

const bool network_added =
    areas().add({"network", "loopback, ports and shared memory", 70, examine_network});

}  // namespace

std::vector<Finding> judge(const NetworkFacts& facts) {
  std::vector<Finding> findings;
  if (!facts.ipv4.empty())
    findings.push_back({.id = "network.loopback",
                        .severity = Severity::problem,
                        .what = fmt::format("IPv4 does not work on loopback: {}", facts.ipv4),
                        .why = "workers of one host meet there",
                        .cure = "ip link set lo up; look for a firewall that blocks it: nft list "
                                "ruleset"});
  if (facts.ipv4.empty() && !facts.shared_memory.empty())
    findings.push_back(
        {.id = "network.shared_memory",
         .severity = Severity::problem,
         .what = fmt::format("two workers cannot share memory: {}", facts.shared_memory),
         .why = "workers of one host exchange gradients so",
         .cure = "--transport tcp needs none; in a container allow memfd_create, and /proc of "
                 "processes of the same user"});
  if (facts.master_port && !facts.master_port->empty())
    findings.push_back({.id = "network.master_port",
                        .severity = Severity::problem,
                        .what = *facts.master_port,
                        .why = "rank 0, which is this process, listens there for all others",
                        .cure = "set MASTER_PORT to a free port, on all workers"});
  return findings;
}

}  // namespace lockstep::doctor
