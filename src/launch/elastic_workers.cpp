#include "launch/elastic_workers.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "launch/worker_process.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

// Workers that die again and again before any of them has done a step will not do one the next
// time.
constexpr int kMostDeathsInVain = 20;
// How long workers may take to end once the job has.
constexpr double kFarewellSeconds = 5;

class ElasticCrew {
 public:
  ElasticCrew(const ElasticOptions& options, elastic::Coordinator* coordinator,
              const std::function<int(int)>& worker_main)
      : options_(options), coordinator_(coordinator), worker_main_([=, this](int place) {
          if (coordinator_) coordinator_->close_here();
          return worker_main(place);
        }) {}

  ElasticEnding until_the_end();

 private:
  bool goes_on() const;
  int places() const;
  void fill_places();
  void wait();
  void see_who_ended();
  void judge(const Ending& ending);
  void count_death(const Ending& ending);
  void pass_on_signals();
  void end_who_is_left();
  ElasticEnding result() const;

  const ElasticOptions options_;
  elastic::Coordinator* const coordinator_;
  const std::function<int(int)> worker_main_;
  Surroundings surroundings_;
  std::map<int, WorkerProcess> workers_;  ///< by place
  std::map<int, bool> left_;              ///< places whose worker ended well
  int deaths_ = 0;
  int deaths_in_vain_ = 0;
  int64_t step_at_death_ = -1;
  int first_signal_ = 0;
  int signals_seen_ = 0;
  std::optional<Ending> failure_;
  std::optional<Deadline> patience_;  ///< with who is left when the job has ended
};

bool ElasticCrew::goes_on() const {
  return !failure_ && signals_seen_ == 0 && (!coordinator_ || !coordinator_->membership().over());
}

int ElasticCrew::places() const {
  return coordinator_ ? coordinator_->membership().places_here() : options_.places;
}

void ElasticCrew::fill_places() {
  if (!goes_on()) return;
  for (int place = 0; place < places(); ++place) {
    if (workers_.contains(place) || left_.contains(place)) continue;
    const auto started = workers_.emplace(
        place, WorkerProcess(
                   {.rank = place, .index = place, .count = options_.places, .prefixed = place > 0},
                   surroundings_, worker_main_));
    if (coordinator_) coordinator_->started(started.first->second.pid(), place);
  }
  // A place that is given up may be wanted again later.
  std::erase_if(left_, [&](const auto& entry) { return entry.first >= places(); });
}

void ElasticCrew::wait() {
  std::vector<pollfd> waits = {surroundings_.signals.waits_for()};
  for (const Outlet* outlet : {&surroundings_.out, &surroundings_.err})
    if (!outlet->empty()) waits.push_back(outlet->waits_for());
  for (const auto& [place, worker] : workers_) worker.add_waits(waits);
  double seconds = coordinator_ ? coordinator_->patience() : 3600;
  if (patience_) seconds = std::min(seconds, patience_->left());
  if (coordinator_) coordinator_->add_waits(waits);
  poll(waits.data(), waits.size(), static_cast<int>(seconds * 1000) + 1);
}

void ElasticCrew::see_who_ended() {
  for (auto entry = workers_.begin(); entry != workers_.end();) {
    auto& [place, worker] = *entry;
    if (!worker.ends_now()) {
      ++entry;
      continue;
    }
    if (coordinator_) coordinator_->ended(worker.pid());
    if (worker.ending().well()) left_[place] = true;
    judge(worker.ending());
    entry = workers_.erase(entry);
  }
  while (surroundings_.reports.take().size() > 0) continue;  // nobody asks how far they have come
  surroundings_.out.drain();
  surroundings_.err.drain();
}

// A worker that a signal killed is replaced; one that ended by an error of its own would do so
// again.
void ElasticCrew::judge(const Ending& ending) {
  if (ending.well() || !goes_on()) return;
  const bool killed = ending.exit_code() > 128;
  if (killed) return count_death(ending);
  if (!failure_) failure_ = ending;
}

void ElasticCrew::count_death(const Ending& ending) {
  ++deaths_;
  const int64_t step = coordinator_ ? coordinator_->membership().step() : -1;
  deaths_in_vain_ = step > step_at_death_ ? 1 : deaths_in_vain_ + 1;
  step_at_death_ = std::max(step, step_at_death_);
  options_.tell(fmt::format("{}; another takes its place", ending.text()));
  if (deaths_in_vain_ >= kMostDeathsInVain) failure_ = ending;
}

void ElasticCrew::pass_on_signals() {
  const int signal = surroundings_.signals.take();
  if (signal == 0) return;
  if (++signals_seen_ == 1) first_signal_ = signal;
  if (signals_seen_ == 1 && coordinator_) coordinator_->stop();
  for (const auto& [place, worker] : workers_) worker.send(signals_seen_ == 1 ? signal : SIGKILL);
}

// They end by themselves when the job has; who does not in time is killed.
void ElasticCrew::end_who_is_left() {
  const bool over = failure_ || (coordinator_ && coordinator_->membership().over());
  if (!over) return;
  if (!patience_) patience_ = Deadline::in(kFarewellSeconds);
  if (!patience_->passed()) return;
  for (const auto& [place, worker] : workers_) worker.send(SIGKILL);
}

ElasticEnding ElasticCrew::until_the_end() {
  fill_places();
  while (!workers_.empty()) {
    wait();
    see_who_ended();
    if (coordinator_) {
      coordinator_->serve();
      for (const int pid : coordinator_->take_condemned())
        for (const auto& [place, worker] : workers_)
          if (worker.pid() == pid) worker.send(SIGKILL);
    }
    pass_on_signals();
    end_who_is_left();
    fill_places();
  }
  finish_output(surroundings_, signals_seen_ > 0);
  return result();
}

ElasticEnding ElasticCrew::result() const {
  ElasticEnding ending{.deaths = deaths_};
  if (coordinator_) {
    ending.failure = coordinator_->membership().failure();
    ending.gave_up = coordinator_->membership().gave_up();
  }
  if (failure_) ending.failure = failure_->text();
  if (failure_)
    ending.exit_code = failure_->exit_code();
  else if (!ending.failure.empty())
    ending.exit_code = 1;
  else if (ending.gave_up)
    ending.exit_code = kLostOthers;
  else if (signals_seen_ > 0)
    ending.exit_code = 128 + first_signal_;
  return ending;
}

}  // namespace

ElasticEnding run_elastic_workers(const ElasticOptions& options, elastic::Coordinator* coordinator,
                                  const std::function<int(int)>& worker_main) {
  return ElasticCrew(options, coordinator, worker_main).until_the_end();
}

}  // namespace lockstep::launch
