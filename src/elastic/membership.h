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

/// Assigned in the order in which workers connect.
using MemberId = int64_t;

/// Where a member runs: in a place of the coordinator's host, or on another host. Rank 0, which
/// writes the run's folder, is always on the coordinator's host, so that workers that are cut off
/// can never write.
struct Seat {
  std::optional<int> here;  ///< the place, on the coordinator's host
};

struct Order {
  MemberId to = 0;
  std::variant<Go, Leave, Dismiss> what;
};

/// Decides which workers belong to the next generation. A pure state machine: it is told what
/// happened to workers and returns orders for them; it does no input or output.
class Membership {
 public:
  struct Bounds {
    Facts facts = {};  ///< what must be equal on all workers
    int first = 1;     ///< workers of the first generation
    int here = 1;      ///< of them, on this host
    int least = 1;     ///< with fewer the run stops
    int most = 1;
    double patience_seconds = 60;  ///< for enough workers to join
  };

  explicit Membership(const Bounds& limits)
      : limits_(limits),
        wanted_(limits.first),
        places_here_(limits.here),
        patience_(Deadline::in(limits.patience_seconds)) {}

  /// Admits a worker, or returns why it is refused.
  std::optional<std::string> admit(MemberId id, const Hello& hello, const Seat& place);
  void ready(MemberId id, const Ready& ready);
  void beat(MemberId id, int64_t step);
  /// It said goodbye, as all do once rank 0 has written everything: the job has ended.
  void bye(MemberId id);
  /// It wants to leave after the current step.
  void resign(MemberId id);
  void failed(MemberId id, const Fail& fail);
  /// Its process died, its connection was closed or its heartbeat timed out.
  void lost(MemberId id);
  /// Sets the number of workers from now on, or returns why that is refused.
  std::optional<std::string> want(int workers);
  /// "1 of 2 workers" while the next generation waits for more workers; else "".
  std::string shortage() const;
  /// Stops the job after the current step, with a checkpoint.
  void stop() { stops_ = true; }

  /// The orders for members. Call it after every change, and when `patience` has passed.
  std::vector<Order> orders();
  double patience() const { return in_generation() ? kNoHurry : patience_.left(); }

  /// How many workers this host must keep running.
  int places_here() const { return places_here_; }
  int count() const { return static_cast<int>(members_.size()); }
  int64_t step() const { return step_; }
  /// The run has ended or failed: no more workers are needed.
  bool over() const { return over_; }
  /// Why it failed.
  const std::string& failure() const { return failure_; }
  int exit_code() const { return exit_code_; }
  /// The run was stopped, with a checkpoint, because too few workers were left.
  bool gave_up() const { return gave_up_; }
  /// "rank 3 (node7, pid 4711)".
  std::string name(MemberId id) const { return name(members_.at(id)); }
  /// One line per member.
  std::string text() const;

 private:
  static constexpr double kNoHurry = 3600;

  struct MemberState {
    Hello hello;
    Seat place;
    std::optional<int> rank;  ///< in its current generation
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
  int64_t step_ = -1;           ///< the highest that any member reported
  int64_t step_at_loss_ = -1;   ///< the value of step_ at the last loss
  int losses_in_vain_ = 0;      ///< in a row, without a finished step in between
  bool lost_somebody_ = false;  ///< in this generation
  std::string whom_;            ///< the lost member
  bool stops_ = false;
  bool is_last_ = false;  ///< the generation only writes a checkpoint
  int exit_code_ = 0;     ///< of the failure
  bool over_ = false;
  bool gave_up_ = false;
  std::string failure_;
  Deadline patience_;
};

}  // namespace lockstep::elastic
