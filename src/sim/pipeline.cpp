// Runs a pipeline's schedule. A stage goes through its actions until one waits for a message that
// has not been sent; the stage that sends it then wakes it up. The invariant: a stage's clock is
// the end of its last action, so that the order in which stages are run does not change any time.
#include "sim/pipeline.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::sim {
namespace {

using pipeline::Action;
using pipeline::PipelineSchedule;
using pipeline::PipelineShape;

constexpr double kNotSent = std::numeric_limits<double>::infinity();

class PipelineRun {
 public:
  PipelineRun(const PipelineSchedule& schedule, const PipelineCosts& costs)
      : schedule_(schedule),
        shape_(schedule.shape),
        costs_(costs),
        clock_(static_cast<size_t>(shape_.stages)),
        outputs_(static_cast<size_t>(shape_.parts() * shape_.micro_batches), kNotSent),
        gradients_(outputs_) {
    timing_.stages.resize(clock_.size());
    timing_.busy.resize(clock_.size());
  }

  PipelineTiming run() {
    for (int stage = shape_.stages - 1; stage >= 0; --stage) awake_.push_back(stage);
    while (!awake_.empty()) {
      const int stage = awake_.back();
      awake_.pop_back();
      advance(stage);
    }
    for (int stage = 0; stage < shape_.stages; ++stage) expect_end(stage);
    for (const double end : clock_) timing_.seconds = std::max(timing_.seconds, end);
    const double total = timing_.seconds * shape_.stages;
    const double busy = std::accumulate(timing_.busy.begin(), timing_.busy.end(), 0.0);
    timing_.bubble = total > 0 ? (total - busy) / total : 0;
    timing_.in_flight = pipeline::memory_in_flight(schedule_);
    return std::move(timing_);
  }

 private:
  // Until the stage has finished or must wait.
  void advance(int stage) {
    const auto& actions = schedule_.actions[static_cast<size_t>(stage)];
    auto& done = timing_.stages[static_cast<size_t>(stage)];
    double& now = clock_[static_cast<size_t>(stage)];
    while (done.size() < actions.size()) {
      const Action& action = actions[done.size()];
      const double begin = now;
      if (action.receives()) {
        if (arrival_of(action) == kNotSent) return;
        now = std::max(now, arrival_of(action));
      } else if (action.sends()) {
        send(action, now);
      } else {
        now += cost_of(action);
        timing_.busy[static_cast<size_t>(stage)] += cost_of(action);
      }
      done.push_back({action, begin, now});
    }
  }

  double cost_of(const Action& pass) const {
    const auto& costs = pass.kind == Action::Kind::forward ? costs_.forward : costs_.backward;
    return costs[static_cast<size_t>(pass.part)];
  }

  // Messages are stored with the part that computed what is in them.
  size_t place_of(int part, int micro_batch) const {
    return static_cast<size_t>(part) * static_cast<size_t>(shape_.micro_batches) +
           static_cast<size_t>(micro_batch);
  }

  double arrival_of(const Action& receive) const {
    return receive.kind == Action::Kind::receive_input
               ? outputs_[place_of(receive.part - 1, receive.micro_batch)]
               : gradients_[place_of(receive.part + 1, receive.micro_batch)];
  }

  void send(const Action& action, double now) {
    const bool output = action.kind == Action::Kind::send_output;
    const double cost =
        (output ? costs_.output : costs_.gradient)[static_cast<size_t>(action.part)];
    (output ? outputs_ : gradients_)[place_of(action.part, action.micro_batch)] = now + cost;
    awake_.push_back(peer_of(shape_, action));
  }

  void expect_end(int stage) const {
    const auto& actions = schedule_.actions[static_cast<size_t>(stage)];
    const size_t done = timing_.stages[static_cast<size_t>(stage)].size();
    if (done < actions.size())
      throw BadInput("this pipeline schedule never ends: stage {} waits forever in {}", stage,
                     to_string(actions[done]));
  }

  const PipelineSchedule& schedule_;
  const PipelineShape& shape_;
  const PipelineCosts& costs_;
  std::vector<double> clock_;    // by stage
  std::vector<double> outputs_;  // when a message arrives, by part and micro-batch
  std::vector<double> gradients_;
  std::vector<int> awake_;  // stages that may be able to go on
  PipelineTiming timing_;
};

void check_costs(const char* what, const std::vector<double>& costs, int parts) {
  if (std::ssize(costs) != parts)
    throw BadInput("{} {} of a pipeline of {} parts: expected one for each part", costs.size(),
                   what, parts);
  for (const double cost : costs)
    if (!std::isfinite(cost) || cost < 0)
      throw BadInput("{} of {} s in a pipeline: expected 0 or more", what, cost);
}

}  // namespace

PipelineTiming simulate(const PipelineSchedule& schedule, const PipelineCosts& costs) {
  const int parts = schedule.shape.parts();
  check_costs("times of forward passes", costs.forward, parts);
  check_costs("times of backward passes", costs.backward, parts);
  check_costs("times of outputs' messages", costs.output, parts);
  check_costs("times of gradients' messages", costs.gradient, parts);
  return PipelineRun(schedule, costs).run();
}

}  // namespace lockstep::sim
