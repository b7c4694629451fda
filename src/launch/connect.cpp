#include "launch/connect.h"

#include "launch/report.h"
#include "lockstep/error.h"
#include "net/tcp_rendezvous.h"
#include "transport/alone.h"
#include "transport/mpi.h"
#include "transport/transports.h"

namespace lockstep::launch {
namespace {

using transport::Rendezvous;
using transport::Transport;
using transport::TransportRow;

std::unique_ptr<Rendezvous> meet(const Job& job, const ConnectOptions& options,
                                 TransportRow::Meeting meeting) {
  if (meeting == TransportRow::Meeting::tcp)
    return net::rendezvous_over_tcp({.rank = job.rank,
                                     .world_size = job.world,
                                     .host = job.master_host,
                                     .port = job.master_port,
                                     .spare_ports = job.spare_ports,
                                     .key = job.key,
                                     .timeout_seconds = options.meeting_seconds,
                                     .stop = options.stop});
  auto all = transport::mpi_rendezvous({.connect_seconds = options.meeting_seconds});
  if (all->world_size() != job.world || all->rank() != job.rank)
    throw BadInput(
        "transport {}: this is rank {} of {} according to MPI, but rank {} of {} according to the "
        "environment; start all workers by one mpirun -n {}",
        options.transport, all->rank(), all->world_size(), job.rank, job.world, job.world);
  return all;
}

void agree_on(const ConnectOptions& options, Rendezvous& all) {
  Facts facts = {{"the transport", options.transport},
                 {"the streams", fmt::format("{}", options.streams)},
                 {"the heartbeat timeout", fmt::format("{}", options.silence_seconds)}};
  facts.insert(facts.end(), options.facts.begin(), options.facts.end());
  agree(facts, [&](const std::string& text) { return all.gather(text); });
}

}  // namespace

std::string resolve_transport(const std::string& name, const Job& job) {
  if (name == "auto") return job.by_mpi && transport::mpi_is_built() ? "hybrid-mpi" : "hybrid";
  return transport::transports().at(name).name;
}

std::unique_ptr<Transport> connect(const Job& job, const ConnectOptions& options) {
  const TransportRow& row = transport::transports().at(options.transport);
  if (job.world == 1 && row.meeting == TransportRow::Meeting::tcp &&
      row.carries == transport::Place::host)
    return transport::connect_alone();
  tell_launcher(job.rank, Stage::meeting);
  const std::unique_ptr<Rendezvous> all = meet(job, options, row.meeting);
  tell_launcher(job.rank, Stage::met);
  agree_on(options, *all);
  return row.connect(*all, {.key = job.key,
                            .streams = options.streams,
                            .silence_seconds = options.silence_seconds,
                            .connect_seconds = options.meeting_seconds,
                            .stop = options.stop,
                            .device = options.device.value_or(job.local_rank)});
}

}  // namespace lockstep::launch
