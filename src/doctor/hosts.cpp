// A host is looked at in three steps: its address (as ssh finds it, which may know it by another
// name), a TCP connection to its ssh server for the time of a round trip, and a worker, which
// `lockstep run` would start in the same way.
#include "doctor/hosts.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <sstream>
#include <utility>

#include "base/deadline.h"
#include "data/subprocess.h"
#include "doctor/area.h"
#include "doctor/resolve.h"
#include "launch/placement.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Where ssh would connect to, by its configuration and options. Other commands than OpenSSH's have
// no flag -G.
SshTarget target_of(const launch::ListedHost& host, const launch::SshOptions& ssh) {
  SshTarget target{.host = launch::address_of(host)};
  if (ssh.command != "ssh" && !ssh.command.starts_with("ssh ")) return target;
  constexpr std::chrono::seconds kLongest{2};
  try {
    const auto answer = data::run_program(
        {"sh", "-c", fmt::format("exec {} -G \"$1\"", ssh.command), "sh", host.name}, kLongest);
    if (!answer || answer->exit_code != 0) return target;
    return target_in(answer->output, target);
  } catch (const BadInput&) {  // the worker below will not start either, and says why
    return target;
  }
}

// Also a refusal is an answer.
std::optional<double> time_round_trip(const net::Address& to, double longest) {
  constexpr int kTimes = 3;
  std::optional<double> best;
  const Deadline deadline = Deadline::in(longest);
  for (int i = 0; i < kTimes && !deadline.passed(); ++i) {
    const auto begin = Clock::now();
    const net::Descriptor socket = net::start_connecting(to);
    if (!socket && errno != ECONNREFUSED) break;
    if (socket) {
      pollfd wait = {.fd = socket.get(), .events = POLLOUT, .revents = 0};
      net::wait_for({&wait, 1}, deadline.left());
      if (wait.revents == 0) break;
      const int error = net::connecting_error(socket.get());
      if (error != 0 && error != ECONNREFUSED) break;
    }
    best = std::min(best.value_or(longest), seconds_since(begin));
  }
  return best;
}

// One worker there, which ends at once.
launch::RemoteJob small_job(const launch::ListedHost& host) {
  return {.host = host.name,
          .folder = std::filesystem::current_path().string(),
          .environment = launch::environment_for_others(),
          .program = {"true"},
          .workers = 1,
          .first = {.key = launch::key_of_job()}};
}

HostFacts look_at(const launch::ListedHost& host, const launch::SshOptions& ssh) {
  const Deadline deadline = Deadline::in(ssh.connect_seconds);
  const SshTarget target = target_of(host, ssh);
  HostFacts facts{.name = host.name, .port = target.port};
  const Resolved resolved = resolve_within(deadline.left(), target.host, target.port);
  facts.address_failure = resolved.failure;
  if (!resolved.addresses.empty()) {
    facts.address = resolved.addresses.front().host();
    facts.round_trip = time_round_trip(resolved.addresses.front(), ssh.connect_seconds / 2);
  }
  const auto begin = Clock::now();
  try {
    launch::try_over_ssh(small_job(host), ssh);
    facts.start = seconds_since(begin);
  } catch (const launch::HostFailed& error) {
    facts.failure = error.failure();
    facts.cure = error.cure();
  } catch (const Error& error) {
    facts.failure = error.what();
    facts.cure = fmt::format("try `{} {} true`", ssh.command, host.name);
  }
  return facts;
}

// Each in a thread of its own, since an unreachable one takes all of its time.
std::vector<HostFacts> gather_hosts(const Request& request) {
  constexpr size_t kAtOnce = 32;
  const auto pipe_before = std::signal(SIGPIPE, SIG_IGN);
  std::vector<HostFacts> all;
  for (size_t begin = 0; begin < request.hosts.size(); begin += kAtOnce) {
    std::vector<std::future<HostFacts>> some;
    for (size_t i = begin; i < std::min(begin + kAtOnce, request.hosts.size()); ++i)
      some.push_back(std::async(std::launch::async,
                                [&, i] { return look_at(request.hosts[i], request.ssh); }));
    for (auto& each : some) all.push_back(each.get());
  }
  std::signal(SIGPIPE, pipe_before);
  return all;
}

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Fact fact_of(const HostFacts& facts) {
  std::string shown = facts.address.empty() ? facts.address_failure : facts.address;
  if (facts.round_trip) shown += fmt::format(", round trip {:.2f} ms", 1000 * *facts.round_trip);
  shown += facts.start ? fmt::format(", a worker started and ended in {:.2f} s", *facts.start)
                       : ", cannot be used";
  return {facts.name,
          {{"address", facts.address},
           {"port", facts.port},
           {"round_trip_seconds", or_null(facts.round_trip)},
           {"start_seconds", or_null(facts.start)},
           {"failure", facts.failure}},
          shown,
          facts.name};
}

Section examine_hosts(const Visit& visit) {
  Section section;
  for (const HostFacts& facts : gather_hosts(visit.request)) {
    section.facts.push_back(fact_of(facts));
    for (Finding& finding : judge(facts)) section.findings.push_back(std::move(finding));
  }
  return section;
}

const bool hosts_added =
    areas().add({"hosts", "other hosts, over ssh (--hosts)", 90, examine_hosts});

}  // namespace

SshTarget target_in(const std::string& answer, SshTarget usual) {
  SshTarget target = std::move(usual);
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = std::min(line.find(' '), line.size());
    const std::string key = line.substr(0, space);
    const std::string value = space < line.size() ? line.substr(space + 1) : "";
    if (key == "hostname" && !value.empty()) target.host = value;
    if (key == "port") std::from_chars(value.data(), value.data() + value.size(), target.port);
  }
  return target;
}

std::vector<Finding> judge(const HostFacts& facts) {
  const std::string where =
      facts.address.empty() ? fmt::format("{} (no address: {})", facts.name, facts.address_failure)
                            : fmt::format("{} ({} port {})", facts.name, facts.address, facts.port);
  if (!facts.failure.empty())
    return {{.id = "hosts.unreachable",
             .severity = Severity::problem,
             .what = fmt::format("host {}: {}", where, facts.failure),
             .why = facts.round_trip ? "its network answers, but no worker can be started there"
                                     : "nothing there answers, so no worker can be started",
             .cure = facts.cure}};
  if (!facts.address_failure.empty())
    return {{.id = "hosts.address",
             .what = fmt::format("host {}: ssh reaches it, but its name has no address: {}",
                                 facts.name, facts.address_failure),
             .why = "workers connect to each other by such names",
             .cure = "list it by an address or a name that all hosts know"}};
  return {};
}

}  // namespace lockstep::doctor
