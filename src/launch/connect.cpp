#include "launch/connect.h"

#include <algorithm>

#include "base/host.h"
#include "base/nearest.h"
#include "launch/report.h"
#include "lockstep/error.h"
#include "net/tcp_rendezvous.h"
#include "transport/alone.h"
#include "transport/hybrid.h"
#include "transport/mpi.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace lockstep::launch {
namespace {

using transport::Rendezvous;
using transport::Transport;

bool uses_mpi(const std::string& name) {
  return name == "mpi" || name == "hybrid-mpi";
}

std::unique_ptr<Rendezvous> meet(const Job& job, const ConnectOptions& options) {
  if (!uses_mpi(options.transport))
    return net::rendezvous_over_tcp({.rank = job.rank,
                                     .world_size = job.world,
                                     .host = job.master_host,
                                     .port = job.master_port,
                                     .key = job.key,
                                     .timeout_seconds = options.meeting_seconds,
                                     .stop = options.stop});
  auto all = transport::mpi_rendezvous({.connect_seconds = options.meeting_seconds});
  if (all->world_size() != job.world || all->rank() != job.rank)
    throw BadInput(
        "transport {}: MPI says that this is rank {} of {}, the environment says rank {} of {}; "
        "start all workers by one mpirun -n {}",
        options.transport, all->rank(), all->world_size(), job.rank, job.world, job.world);
  return all;
}

bool are_on_one_host(Rendezvous& all) {
  const std::vector<std::string> hosts = all.gather(host_identity());
  return std::all_of(hosts.begin(), hosts.end(),
                     [&](const std::string& host) { return host == hosts[0]; });
}

void agree_on(const ConnectOptions& options, Rendezvous& all) {
  Facts facts = {{"the transport", options.transport},
                 {"the streams", fmt::format("{}", options.streams)},
                 {"the seconds of silence", fmt::format("{}", options.silence_seconds)}};
  facts.insert(facts.end(), options.facts.begin(), options.facts.end());
  agree(facts, [&](const std::string& text) { return all.gather(text); });
}

}  // namespace

const std::vector<std::string>& transport_names() {
  static const std::vector<std::string> names = {"shm", "tcp", "mpi", "hybrid", "hybrid-mpi"};
  return names;
}

void check_transport(const std::string& name) {
  const auto& names = transport_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw BadInput("transport '{}': no such transport{}; there are: {}", name,
                   did_you_mean(name, names), fmt::join(names, ", "));
}

std::string resolve_transport(const std::string& name, const Job& job) {
  if (name == "auto") return job.by_mpi && transport::mpi_is_built() ? "hybrid-mpi" : "hybrid";
  check_transport(name);
  return name;
}

std::unique_ptr<Transport> connect(const Job& job, const ConnectOptions& options) {
  check_transport(options.transport);
  if (job.world == 1 && !uses_mpi(options.transport)) return transport::connect_alone();
  tell_launcher(job.rank, Stage::meeting);
  const std::unique_ptr<Rendezvous> all = meet(job, options);
  tell_launcher(job.rank, Stage::met);
  agree_on(options, *all);
  const transport::ShmOptions shm{.silence_seconds = options.silence_seconds};
  const transport::TcpOptions tcp{.key = job.key,
                                  .streams = options.streams,
                                  .silence_seconds = options.silence_seconds,
                                  .connect_seconds = options.meeting_seconds};
  if (options.transport == "shm") return transport::connect_shm(*all, shm);
  if (options.transport == "tcp") return transport::connect_tcp(*all, tcp);
  if (options.transport == "mpi") return transport::connect_mpi(*all);
  if (are_on_one_host(*all)) return transport::connect_shm(*all, shm);
  auto between = uses_mpi(options.transport) ? transport::connect_mpi(*all)
                                             : transport::connect_tcp(*all, tcp);
  return transport::connect_hybrid(*all, std::move(between), shm);
}

}  // namespace lockstep::launch
