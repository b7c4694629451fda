// Interprets every schedule symbolically, for many shapes: what is computed, what it needs, what is
// sent and in which order it is received.
#include "pipeline/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "expect_error.h"

namespace lockstep::pipeline {
namespace {

using Kind = Action::Kind;

struct Case {
  const PipelineScheduleRow* row;
  PipelineShape shape;

  std::string name() const {
    return fmt::format("{} with S={} v={} M={}", row->name, shape.stages, shape.parts_per_stage,
                       shape.micro_batches);
  }
};

bool can_run(const PipelineScheduleRow& row, const PipelineShape& shape) {
  try {
    row.check(shape);
    return true;
  } catch (const BadInput&) {
    return false;
  }
}

// All rows, 1 to 8 stages, 1 to 16 micro-batches; 1 to 3 parts per stage where a row has several.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& row : pipeline_schedules())
    for (int stages = 1; stages <= 8; ++stages)
      for (int parts = 1; parts <= (row->usual_parts_per_stage > 1 ? 3 : 1); ++parts)
        for (int micro_batches = 1; micro_batches <= 16; ++micro_batches)
          if (const PipelineShape shape{stages, parts, micro_batches}; can_run(*row, shape))
            cases.push_back({row.get(), shape});
  return cases;
}

// A schedule as a program: stages run one after another as far as they can, sends do not wait, and
// a receive takes the oldest message of its link, which must be the one that it expects.
class Interpreter {
 public:
  explicit Interpreter(const PipelineSchedule& schedule) : schedule_(schedule) {}

  // An empty text if all is well, else what is wrong.
  std::string run() {
    const auto stages = static_cast<size_t>(schedule_.shape.stages);
    if (schedule_.actions.size() != stages) return "not one list of actions for each stage";
    std::vector<size_t> next(stages);
    bool moved = true;
    while (moved && wrong_.empty()) {
      moved = false;
      for (size_t stage = 0; stage < stages; ++stage)
        while (next[stage] < schedule_.actions[stage].size() && wrong_.empty() &&
               act(static_cast<int>(stage), schedule_.actions[stage][next[stage]])) {
          ++next[stage];
          moved = true;
        }
    }
    if (!wrong_.empty()) return wrong_;
    for (size_t stage = 0; stage < stages; ++stage)
      if (next[stage] < schedule_.actions[stage].size())
        return fmt::format("deadlock: stage {} waits in {}", stage,
                           to_string(schedule_.actions[stage][next[stage]]));
    return what_is_missing();
  }

 private:
  using Tensor = std::tuple<Kind, int, int>;  // computed by which pass of which part, micro-batch

  // Whether the stage could do this; it cannot while it waits for a message.
  bool act(int stage, const Action& action) {
    const auto complain = [&](const char* what) {
      wrong_ = fmt::format("stage {}, {}: {}", stage, to_string(action), what);
      return true;
    };
    if (schedule_.shape.stage_of(action.part) != stage) return complain("not its part");
    const bool first = action.part == 0;
    const bool last = action.part == schedule_.shape.parts() - 1;
    const Tensor output{Kind::forward, action.part, action.micro_batch};
    const Tensor input{Kind::forward, action.part - 1, action.micro_batch};
    const Tensor gradient{Kind::backward, action.part + 1, action.micro_batch};
    const Tensor input_gradient{Kind::backward, action.part, action.micro_batch};
    auto& here = tensors_[stage];
    switch (action.kind) {
      case Kind::forward:
        if (!first && !here.contains(input)) return complain("its input is not here");
        return here.insert(output).second ? true : complain("for the second time");
      case Kind::backward:
        if (!here.contains(output)) return complain("before its forward pass");
        if (!last && !here.contains(gradient)) return complain("its gradient is not here");
        return here.insert(input_gradient).second ? true : complain("for the second time");
      case Kind::send_output:
        if (last || !here.contains(output)) return complain("there is nothing to send");
        return send(stage, action, output);
      case Kind::send_gradient:
        if (first || !here.contains(input_gradient)) return complain("there is nothing to send");
        return send(stage, action, input_gradient);
      case Kind::receive_input:
        return first ? complain("from nobody") : receive(stage, action, input);
      case Kind::receive_gradient:
        return last ? complain("from nobody") : receive(stage, action, gradient);
      case Kind::scatter:
      case Kind::collect:
      case Kind::finish:
        return complain("in no pipeline");
    }
    return complain("unknown");
  }

  bool send(int stage, const Action& action, const Tensor& tensor) {
    const int peer = peer_of(schedule_.shape, action);
    if (peer == stage) wrong_ = "a stage sends to itself: " + to_string(action);
    links_[{stage, peer, std::get<Kind>(tensor)}].push_back(tensor);
    return true;
  }

  bool receive(int stage, const Action& action, const Tensor& tensor) {
    auto& link = links_[{peer_of(schedule_.shape, action), stage, std::get<Kind>(tensor)}];
    if (link.empty()) return false;
    if (link.front() != tensor)
      wrong_ = fmt::format("stage {}: another message comes before that of {}", stage,
                           to_string(action));
    link.erase(link.begin());
    tensors_[stage].insert(tensor);
    return true;
  }

  std::string what_is_missing() const {
    for (const auto& [link, messages] : links_)
      if (!messages.empty()) return "a message is never received";
    for (int part = 0; part < schedule_.shape.parts(); ++part)
      for (int micro_batch = 0; micro_batch < schedule_.shape.micro_batches; ++micro_batch)
        for (const Kind kind : {Kind::forward, Kind::backward})
          if (!tensors_.at(schedule_.shape.stage_of(part)).contains({kind, part, micro_batch}))
            return "never done: " + to_string({kind, part, micro_batch});
    return "";
  }

  const PipelineSchedule& schedule_;
  std::map<int, std::set<Tensor>> tensors_;                          // by stage
  std::map<std::tuple<int, int, Kind>, std::vector<Tensor>> links_;  // from, to, what it carries
  std::string wrong_;
};

std::vector<int> micro_batches_of(const std::vector<Action>& actions, Kind kind, int part) {
  std::vector<int> found;
  for (const Action& action : actions)
    if (action.kind == kind && action.part == part) found.push_back(action.micro_batch);
  return found;
}

PipelineSchedule schedule_of(const std::string& name, const PipelineShape& shape) {
  return make_schedule(pipeline_schedules().at(name), shape);
}

TEST(PipelineSchedules, AreTheFourThatDocsDescribe) {
  EXPECT_EQ(pipeline_schedules().names(),
            (std::vector<std::string>{"1f1b", "gpipe", "interleaved", "sequential"}));
}

TEST(PipelineSchedules, ComputeEverythingOnceFromWhatIsThereAndReceiveInTheOrderOfSending) {
  for (const Case& one : all_cases())
    EXPECT_EQ(Interpreter(make_schedule(*one.row, one.shape)).run(), "") << one.name();
}

TEST(PipelineSchedules, TakeEveryPartsMicroBatchesInOrderForwardsAndBackwards) {
  for (const Case& one : all_cases()) {
    const PipelineSchedule schedule = make_schedule(*one.row, one.shape);
    for (int part = 0; part < one.shape.parts(); ++part)
      for (const Kind kind : {Kind::forward, Kind::backward}) {
        const auto found = micro_batches_of(
            schedule.actions[static_cast<size_t>(one.shape.stage_of(part))], kind, part);
        EXPECT_TRUE(std::is_sorted(found.begin(), found.end())) << one.name() << ", part " << part;
        EXPECT_EQ(std::ssize(found), one.shape.micro_batches) << one.name() << ", part " << part;
      }
  }
}

TEST(PipelineSchedules, HoldAsManyActivationsAsTheirFormulasSay) {
  const auto expected = [](const Case& one, int s) {
    const auto [S, v, M] = one.shape;
    if (one.row->name == "sequential") return 1;
    if (one.row->name == "gpipe") return M;
    if (one.row->name == "1f1b") return std::min(S - s, M);
    return std::min(2 * (S - 1 - s) + (v - 1) * S + 1, v * M);
  };
  for (const Case& one : all_cases()) {
    const std::vector<int> held = memory_in_flight(make_schedule(*one.row, one.shape));
    ASSERT_EQ(std::ssize(held), one.shape.stages);
    for (int stage = 0; stage < one.shape.stages; ++stage)
      EXPECT_EQ(held[static_cast<size_t>(stage)], expected(one, stage))
          << one.name() << ", stage " << stage;
  }
}

TEST(PipelineSchedules, RunAnyNumberOfMicroBatchesExceptInterleavedWhichNeedsFullGroups) {
  for (const auto& row : pipeline_schedules())
    for (int stages = 1; stages <= 8; ++stages)
      for (int micro_batches = 1; micro_batches <= 16; ++micro_batches)
        EXPECT_EQ(can_run(*row, {stages, row->usual_parts_per_stage, micro_batches}),
                  row->name != "interleaved" || micro_batches % stages == 0)
            << row->name << " with S=" << stages << " M=" << micro_batches;
}

TEST(PipelineSchedules, OfOneStageSendNothing) {
  for (const Case& one : all_cases()) {
    if (one.shape.stages > 1) continue;
    const PipelineSchedule schedule = make_schedule(*one.row, one.shape);
    for (const Action& action : schedule.actions[0]) EXPECT_TRUE(action.computes()) << one.name();
  }
}

TEST(PipelineSchedules, OfTheFirstAndLastPartHaveNoMessagesBeyondTheModel) {
  const PipelineSchedule schedule = schedule_of("1f1b", {2, 1, 1});
  EXPECT_EQ(schedule.actions[0], (std::vector<Action>{{Kind::forward, 0, 0},
                                                      {Kind::send_output, 0, 0},
                                                      {Kind::receive_gradient, 0, 0},
                                                      {Kind::backward, 0, 0}}));
  EXPECT_EQ(schedule.actions[1], (std::vector<Action>{{Kind::receive_input, 1, 0},
                                                      {Kind::forward, 1, 0},
                                                      {Kind::backward, 1, 0},
                                                      {Kind::send_gradient, 1, 0}}));
}

TEST(PipelineSchedules, InterleavedGoesThroughGroupsOfAsManyMicroBatchesAsStages) {
  const PipelineSchedule schedule = schedule_of("interleaved", {2, 2, 4});
  std::vector<std::string> order;
  for (const Action& action : schedule.actions[1])
    if (action.computes())
      order.push_back(fmt::format("{}{}.{}", action.kind == Kind::forward ? "F" : "B", action.part,
                                  action.micro_batch));
  EXPECT_EQ(order, (std::vector<std::string>{"F1.0", "F1.1", "F3.0", "B3.0", "F3.1", "B3.1", "F1.2",
                                             "B1.0", "F1.3", "B1.1", "F3.2", "B3.2", "F3.3", "B3.3",
                                             "B1.2", "B1.3"}));
}

TEST(PipelineSchedules, RefuseShapesThatCannotBe) {
  const auto refused = [](const char* name, PipelineShape shape,
                          std::initializer_list<std::string> parts) {
    expect_bad_input([&] { schedule_of(name, shape); }, parts);
  };
  refused("gpipe", {0, 1, 4}, {"0 stages", "1 to 1024"});
  refused("gpipe", {1025, 1, 4}, {"1025 stages"});
  refused("gpipe", {4, 1, 0}, {"0 micro-batches", "1 to 65536"});
  refused("interleaved", {4, 0, 4}, {"0 parts per stage", "1 to 64"});
  refused("gpipe", {4, 2, 4}, {"2 parts per stage", "gpipe has 1 part"});
  refused("interleaved", {4, 2, 7}, {"7 micro-batches on 4 stages", "such as 8"});
  refused("1f1b", {1024, 1, 65536}, {"1024 parts and 65536 micro-batches", "1048576"});
  refused("1f1f", {4, 1, 4}, {"no such pipeline schedule", "did you mean '1f1b'?"});
}

TEST(Interpreter, FindsWhatIsWrongWithASchedule) {
  const PipelineSchedule right = schedule_of("gpipe", {2, 1, 2});
  const auto complaint = [&](auto change) {
    PipelineSchedule schedule = right;
    change(schedule.actions);
    return Interpreter(schedule).run();
  };
  EXPECT_EQ(complaint([](auto&) {}), "");
  EXPECT_TRUE(has(complaint([](auto& actions) { actions[0].pop_back(); }), "never done"));
  EXPECT_TRUE(has(complaint([](auto& actions) { actions[1].pop_back(); }), "deadlock"));
  EXPECT_TRUE(has(complaint([](auto& actions) { actions[1].erase(actions[1].begin()); }),
                  "its input is not here"));
  EXPECT_TRUE(has(complaint([](auto& actions) { std::swap(actions[0][1], actions[0][3]); }),
                  "there is nothing to send"));
  EXPECT_TRUE(has(complaint([](auto& actions) {
                    std::rotate(actions[0].begin(), actions[0].begin() + 2, actions[0].begin() + 4);
                  }),
                  "another message comes before"));
}

}  // namespace
}  // namespace lockstep::pipeline
