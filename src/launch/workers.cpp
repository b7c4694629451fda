#include "launch/workers.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include "base/deadline.h"
#include "launch/worker_process.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

// The workers of a job that is not elastic.
class Crew {
 public:
  explicit Crew(const WorkersOptions& options) : options_(options) {}

  /// In a worker: its rank.
  std::optional<int> start();
  std::vector<Ending> until_all_have_ended();

 private:
  bool prefixed(int rank) const;
  void wait();
  void read_reports();
  void see_who_ended();
  void end_a_meeting_in_vain();
  void pass_on_signals();
  void send_all(int signal) const;
  void kill_who_hangs();
  bool obeyed(const Ending& ending) const;

  const WorkersOptions options_;
  Surroundings surroundings_;
  std::vector<WorkerProcess> workers_;
  int left_ = 0;
  int first_signal_ = 0;
  int signals_seen_ = 0;
  std::optional<Deadline> patience_;
};

bool Crew::prefixed(int rank) const {
  return options_.prefixed == Prefixed::all || (options_.prefixed == Prefixed::others && rank > 0);
}

std::optional<int> Crew::start() {
  try {
    for (int index = 0; index < options_.count; ++index) {
      const int rank = options_.first_rank + index;
      workers_.emplace_back(WorkerProcess::Start{.rank = rank,
                                                 .index = index,
                                                 .count = options_.count,
                                                 .pinned = options_.pinned,
                                                 .prefixed = prefixed(rank)},
                            surroundings_);
      if (workers_.back().is_here()) return rank;
    }
  } catch (const Error&) {
    send_all(SIGKILL);
    while (std::any_of(workers_.begin(), workers_.end(), [](WorkerProcess& worker) {
      return worker.running() && !worker.ends_now();
    }))
      wait();
    throw;
  }
  left_ = options_.count;
  return std::nullopt;
}

void Crew::send_all(int signal) const {
  for (const WorkerProcess& worker : workers_) worker.send(signal);
}

void Crew::wait() {
  std::vector<pollfd> waits = {surroundings_.signals.waits_for(),
                               surroundings_.reports.waits_for()};
  for (const Outlet* outlet : {&surroundings_.out, &surroundings_.err})
    if (!outlet->empty()) waits.push_back(outlet->waits_for());
  for (const WorkerProcess& worker : workers_) worker.add_waits(waits);
  const int milliseconds = patience_ ? static_cast<int>(patience_->left() * 1000) + 1 : -1;
  poll(waits.data(), waits.size(), milliseconds);
}

void Crew::read_reports() {
  for (const auto& [rank, stage] : surroundings_.reports.take())
    for (WorkerProcess& worker : workers_)
      if (worker.rank() == rank) worker.stage = stage;
}

void Crew::see_who_ended() {
  for (WorkerProcess& worker : workers_) {
    if (!worker.ends_now()) continue;
    read_reports();  // those that it sent before it ended
    worker.ending().place = options_.count - --left_;
    if ((!worker.ending().well() || signals_seen_ > 0) && !patience_)
      patience_ = Deadline::in(options_.patience_seconds);
  }
  surroundings_.out.drain();
  surroundings_.err.drain();
}

// A worker that ended before its rendezvous would make the others wait until the timeout.
void Crew::end_a_meeting_in_vain() {
  if (patience_) return;
  const bool waiting = std::any_of(workers_.begin(), workers_.end(), [](const auto& worker) {
    return worker.running() && worker.stage == Stage::meeting;
  });
  for (WorkerProcess& worker : workers_) {
    if (!waiting || worker.running() || worker.stage == Stage::met) continue;
    worker.ending().early = true;
    patience_ = Deadline::in(options_.patience_seconds);
    return send_all(SIGTERM);
  }
}

void Crew::pass_on_signals() {
  const int signal = surroundings_.signals.take();
  if (signal == 0) return;
  if (++signals_seen_ == 1) first_signal_ = signal;
  if (left_ < options_.count && !patience_) patience_ = Deadline::in(options_.patience_seconds);
  send_all(signals_seen_ == 1 ? signal : SIGKILL);
}

void Crew::kill_who_hangs() {
  for (WorkerProcess& worker : workers_) worker.ending().hung |= worker.running();
  send_all(SIGKILL);
}

// Whether it ended because of a signal that was passed on, or because another worker did.
bool Crew::obeyed(const Ending& ending) const {
  if (signals_seen_ == 0 || ending.well() || ending.early) return false;
  const int code = ending.exit_code();
  return code == 128 + first_signal_ || code == kLostOthers ||
         (signals_seen_ > 1 && code == 128 + SIGKILL);
}

std::vector<Ending> Crew::until_all_have_ended() {
  while (left_ > 0) {
    wait();
    read_reports();
    see_who_ended();
    end_a_meeting_in_vain();
    pass_on_signals();
    if (patience_ && patience_->passed()) kill_who_hangs();
  }
  finish_output(surroundings_, signals_seen_ > 0);
  std::vector<Ending> endings;
  for (WorkerProcess& worker : workers_) {
    worker.ending().as_asked = obeyed(worker.ending());
    endings.push_back(std::move(worker.ending()));
  }
  find_who_left_early(endings);
  return endings;
}

}  // namespace

StartedWorkers start_workers(const WorkersOptions& options) {
  auto crew = std::make_unique<Crew>(options);
  if (const auto rank = crew->start()) {
    // Its members belong to the launcher: in a worker, their destructors must not run.
    static auto* const left_alone = new std::vector<std::unique_ptr<Crew>>;
    left_alone->push_back(std::move(crew));
    return {rank, {}};
  }
  return {std::nullopt, crew->until_all_have_ended()};
}

}  // namespace lockstep::launch
