#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/deadline.h"
#include "elastic/message.h"

namespace lockstep::elastic {

/// Numbers are given in order of coming.
using MemberId = int64_t;

/// Where a member runs: on the coordinator's own host in one of its places, or elsewhere. Rank 0,
/// which keeps the run's record, is always here, so that a part of the job that is cut off can
/// never write.
struct Seat {
  std::optional<int> here;  ///< which place of this host
};

struct Order {
  MemberId to = 0;
  std::variant<Go, Leave, Dismiss> what;
};

/// Who works on a run, and since when: decides from what happens to workers who belongs to the next
/// generation. Talks to nobody: takes what happened and gives orders.
class Membership {
 public:
  struct Bounds {
    Facts facts = {};  ///< what every worker must hold
    int first = 1;     ///< so many begin
    int here = 1;      ///< of them on this host
    int least = 1;     ///< with fewer it does not go on
    int most = 1;
    double patience_seconds = 60;  ///< for so many to come, at first and later on
  };

  explicit Membership(const Bounds& limits)
      : limits_(limits),
        wanted_(limits.first),
        places_here_(limits.here),
        patience_(Deadline::in(limits.patience_seconds)) {}

  /// Why this one cannot belong to the job; nothing where it is welcome.
  std::optional<std::string> admit(MemberId id, const Hello& hello, const Seat& place);
  void ready(MemberId id, const Ready& ready);
  void beat(MemberId id, int64_t step);
  /// It said goodbye, which all do once rank 0 has written everything: the job's end.
  void bye(MemberId id);
  /// It wants to leave after the step under way.
  void resign(MemberId id);
  void failed(MemberId id, const Fail& fail);
  /// It died, hung up or fell silent.
  void lost(MemberId id);
  /// So many are wanted from here on, or why that cannot be.
  std::optional<std::string> want(int workers);
  /// "1 of 2 workers", where the next generation waits for others to come; else "".
  std::string shortage() const;
  /// Somebody asked the job to stop: it does after the step under way, with a checkpoint.
  void stop() { stops_ = true; }

  /// What members are to do now. Call it after every change, and when `patience` has passed.
  std::vector<Order> orders();
  double patience() const { return in_generation() ? kNoHurry : patience_.left(); }

  /// How many this host is to keep running.
  int places_here() const { return places_here_; }
  int count() const { return static_cast<int>(members_.size()); }
  int64_t step() const { return step_; }
  /// The run is at its end, or will not go on: nobody else is needed.
  bool over() const { return over_; }
  /// Why it did not come to its end.
  const std::string& failure() const { return failure_; }
  int exit_code() const { return exit_code_; }
  /// Too few were left: the run was stopped, with a checkpoint.
  bool gave_up() const { return gave_up_; }
  /// "rank 3 (node7, pid 4711)".
  std::string name(MemberId id) const { return name(members_.at(id)); }
  /// A line for every member.
  std::string text() const;

 private:
  static constexpr double kNoHurry = 3600;

  struct MemberState {
    Hello hello;
    Seat place;
    std::optional<int> rank;  ///< of the generation it is in
    bool resigned = false;
    bool told_to_leave = false;  ///< the generation, after a step or at once
    bool told_at_once = false;
  };

  std::string name(const MemberState& member) const;
  bool in_generation() const;
  bool anyone_here() const;
  int needed() const { return generation_ == 0 ? limits_.first : limits_.least; }
  void end(const std::string& why, std::vector<Order>& orders);
  void order_to_leave(std::vector<Order>& orders);
  void dismiss_who_is_too_many(std::vector<Order>& orders);
  void begin_generation(bool last, std::vector<Order>& orders);
  std::vector<MemberId> by_rank() const;

  const Bounds limits_;
  int wanted_;
  int places_here_;
  std::map<MemberId, MemberState> members_;
  int64_t generation_ = 0;
  int64_t step_ = -1;           ///< the furthest that anyone has told
  int64_t step_at_loss_ = -1;   ///< when somebody was lost last
  int losses_in_vain_ = 0;      ///< in a row, without a step in between
  bool lost_somebody_ = false;  ///< of the generation
  std::string whom_;            ///< it lost
  bool stops_ = false;
  bool is_last_ = false;  ///< the generation only writes a checkpoint
  int exit_code_ = 0;     ///< of the failure
  bool over_ = false;
  bool gave_up_ = false;
  std::string failure_;
  Deadline patience_;
};

}  // namespace lockstep::elastic
