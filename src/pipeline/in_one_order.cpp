#include "pipeline/in_one_order.h"

#include <set>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::pipeline {
namespace {

using Kind = Action::Kind;

// A message, by who receives it.
struct Message {
  Kind kind;
  int part;
  int micro_batch;
  auto operator<=>(const Message&) const = default;
};

Message sent_by(const Action& action) {
  return action.kind == Kind::send_output
             ? Message{Kind::receive_input, action.part + 1, action.micro_batch}
             : Message{Kind::receive_gradient, action.part - 1, action.micro_batch};
}

}  // namespace

std::vector<Action> in_one_order(const PipelineSchedule& schedule) {
  std::vector<Action> order;
  std::vector<size_t> done(schedule.actions.size());
  std::set<Message> sent;
  // A turn of a stage ends after a pass, or where it would have to wait.
  const auto take_turn = [&](size_t stage) {
    const std::vector<Action>& actions = schedule.actions[stage];
    size_t& next = done[stage];
    for (bool computed = false; next < actions.size(); ++next) {
      const Action& action = actions[next];
      if (action.receives() && !sent.contains({action.kind, action.part, action.micro_batch}))
        return;
      if (!action.sends() && computed) return;
      computed = computed || action.computes();
      if (action.sends()) sent.insert(sent_by(action));
      order.push_back(action);
    }
  };
  size_t all = 0;
  for (const auto& actions : schedule.actions) all += actions.size();
  while (order.size() < all) {
    const size_t before = order.size();
    for (size_t stage = 0; stage < schedule.actions.size(); ++stage) take_turn(stage);
    if (order.size() == before) throw Error("a pipeline's stages wait for each other");
  }
  return order;
}

}  // namespace lockstep::pipeline
