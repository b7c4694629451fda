#include "launch/elastic_workers.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "launch/worker_process.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

// Give up after this many deaths in a row of workers that lived less than kLongLife seconds while
// no step was finished.
constexpr int kMostDeathsInVain = 20;
constexpr double kLongLife = 3;
// How long workers may take to end once the job has ended.
constexpr double kPatienceSeconds = 5;
// Pause before another attempt to start a worker that could not be started.
constexpr double kRetrySeconds = 10;

class ElasticCrew {
 public:
  explicit ElasticCrew(const ElasticOptions& options);

  StartedElastic until_the_end();

 private:
  struct Worker {
    WorkerProcess process;
    Deadline lived_long = Deadline::in(kLongLife);
  };

  bool goes_on() const;
  int places() const;
  void tell(const std::string& message);
  void fill_places();
  void fill(int place);
  void become(int place);
  void wait();
  void see_who_ended();
  void judge(const Worker& worker);
  void count_death(const Worker& worker);
  void serve_others();
  void take_signals();
  void send_all(int signal) const;
  void end_who_is_left();
  ElasticEnding result() const;

  const int places_;
  Surroundings surroundings_;
  std::optional<elastic::Coordinator> coordinator_;
  std::map<int, Worker> workers_;  ///< by place
  std::optional<int> here_;        ///< in a worker: its place
  std::set<int> given_up_;         ///< on other hosts: places whose worker ended by itself
  Deadline next_try_ = Deadline::in(0);
  int deaths_in_vain_ = 0;
  int64_t step_at_death_ = -1;
  int first_signal_ = 0;
  int signals_seen_ = 0;
  std::optional<Ending> failure_;
  std::optional<Deadline> patience_;  ///< for workers that still run when the job has ended
};

ElasticCrew::ElasticCrew(const ElasticOptions& options) : places_(options.places) {
  if (!options.lead) return;
  elastic::CoordinatorOptions lead = *options.lead;
  lead.tell = [this](const std::string& message) { tell(message); };
  coordinator_.emplace(lead);
}

// Never blocks on a slow reader of stderr, since workers depend on this process.
void ElasticCrew::tell(const std::string& message) {
  surroundings_.err.put(fmt::format("lockstep: {}\n", message));
}

bool ElasticCrew::goes_on() const {
  return !failure_ && signals_seen_ == 0 && (!coordinator_ || !coordinator_->membership().over());
}

int ElasticCrew::places() const {
  return coordinator_ ? coordinator_->membership().places_here() : places_;
}

void ElasticCrew::fill_places() {
  if (!goes_on() || !next_try_.passed()) return;
  try {
    for (int place = 0; place < places() && !here_; ++place)
      if (!workers_.contains(place) && !given_up_.contains(place)) fill(place);
  } catch (const Error& error) {
    if (workers_.empty()) throw;
    tell(fmt::format("{}; continuing without it, next attempt in {:g} s", error.what(),
                     kRetrySeconds));
    next_try_ = Deadline::in(kRetrySeconds);
  }
}

void ElasticCrew::fill(int place) {
  WorkerProcess process(
      {.rank = place, .noun = "worker", .index = place, .count = places_, .prefixed = place > 0},
      surroundings_);
  if (process.is_here()) return become(place);
  if (coordinator_) coordinator_->started(process.pid(), place);
  workers_.emplace(place, Worker{std::move(process)});
}

void ElasticCrew::become(int place) {
  here_ = place;
  if (!coordinator_) return;
  coordinator_->close_here();
  signal(SIGINT, SIG_IGN);  // the launcher handles these for all workers
  signal(SIGTERM, SIG_IGN);
}

void ElasticCrew::wait() {
  std::vector<pollfd> waits = {surroundings_.signals.waits_for()};
  for (const Outlet* outlet : {&surroundings_.out, &surroundings_.err})
    if (!outlet->empty()) waits.push_back(outlet->waits_for());
  for (const auto& [place, worker] : workers_) worker.process.add_waits(waits);
  double seconds = coordinator_ ? coordinator_->patience() : 3600;
  if (patience_) seconds = std::min(seconds, patience_->left());
  if (!next_try_.passed()) seconds = std::min(seconds, next_try_.left());
  if (coordinator_) coordinator_->add_waits(waits);
  poll(waits.data(), waits.size(), static_cast<int>(seconds * 1000) + 1);
}

void ElasticCrew::see_who_ended() {
  for (auto entry = workers_.begin(); entry != workers_.end();) {
    auto& [place, worker] = *entry;
    if (!worker.process.ends_now()) {
      ++entry;
      continue;
    }
    if (coordinator_) coordinator_->ended(worker.process.pid());
    judge(worker);
    entry = workers_.erase(entry);
  }
  while (!surroundings_.reports.take().empty()) continue;  // reports are not needed here
  surroundings_.out.drain();
  surroundings_.err.drain();
}

// A worker that was killed by a signal is replaced. One that ended with an error would fail again,
// so it is not; on a host without the coordinator, the host's other workers continue.
void ElasticCrew::judge(const Worker& worker) {
  const Ending& ending = worker.process.ending();
  const bool killed = ending.exit_code() > 128;
  if (!coordinator_ && !killed) given_up_.insert(ending.rank);
  if (ending.well() || !goes_on()) return;
  if (killed) return count_death(worker);
  if (coordinator_ || workers_.size() == 1) failure_ = ending;
}

void ElasticCrew::count_death(const Worker& worker) {
  const int64_t step = coordinator_ ? coordinator_->membership().step() : -1;
  const bool in_vain = step <= step_at_death_ && !worker.lived_long.passed();
  deaths_in_vain_ = in_vain ? deaths_in_vain_ + 1 : 1;
  step_at_death_ = std::max(step, step_at_death_);
  tell(fmt::format("starting another worker in place of a lost one: {}",
                   worker.process.ending().text()));
  if (deaths_in_vain_ >= kMostDeathsInVain) failure_ = worker.process.ending();
}

void ElasticCrew::serve_others() {
  if (!coordinator_) return;
  coordinator_->serve();
  for (const int pid : coordinator_->take_condemned())
    for (const auto& [place, worker] : workers_)
      if (worker.process.pid() == pid) worker.process.send(SIGKILL);
}

void ElasticCrew::take_signals() {
  const int signal = surroundings_.signals.take();
  if (signal == 0) return;
  if (++signals_seen_ > 1) return send_all(SIGKILL);
  first_signal_ = signal;
  if (coordinator_)
    coordinator_->stop();
  else
    send_all(signal);
}

void ElasticCrew::send_all(int signal) const {
  for (const auto& [place, worker] : workers_) worker.process.send(signal);
}

// Workers end by themselves after the job has ended; those that do not in time are killed.
void ElasticCrew::end_who_is_left() {
  const bool over = failure_ || (coordinator_ && coordinator_->membership().over());
  if (!over) return;
  if (!patience_) patience_ = Deadline::in(kPatienceSeconds);
  if (patience_->passed()) send_all(SIGKILL);
}

StartedElastic ElasticCrew::until_the_end() {
  fill_places();
  while (!here_ && !workers_.empty()) {
    wait();
    see_who_ended();
    take_signals();
    serve_others();
    end_who_is_left();
    fill_places();
  }
  if (here_) return {here_, {}};
  finish_output(surroundings_, signals_seen_ > 0);
  return {std::nullopt, result()};
}

ElasticEnding ElasticCrew::result() const {
  ElasticEnding ending;
  if (coordinator_) {
    ending.failure = coordinator_->membership().failure();
    ending.exit_code = coordinator_->membership().exit_code();
    ending.gave_up = coordinator_->membership().gave_up();
  }
  if (failure_ && ending.failure.empty()) {
    ending.failure = failure_->text();
    ending.exit_code = failure_->exit_code();
  }
  if (!ending.failure.empty()) return ending;
  if (ending.gave_up) ending.exit_code = kLostOthers;
  if (signals_seen_ > 0) ending.exit_code = 128 + first_signal_;
  return ending;
}

}  // namespace

StartedElastic start_elastic_workers(const ElasticOptions& options) {
  auto crew = std::make_unique<ElasticCrew>(options);
  StartedElastic started = crew->until_the_end();
  if (started.place) {
    // Its members belong to the launcher: in a worker, their destructors must not run.
    static auto* const left_alone = new std::vector<std::unique_ptr<ElasticCrew>>;
    left_alone->push_back(std::move(crew));
  }
  return started;
}

}  // namespace lockstep::launch
