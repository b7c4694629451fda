#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/agreement.h"

namespace lockstep::elastic {

/// A generation is a period in which the set of workers of a job stays the same: it ends when a
/// worker is lost, joins or leaves.

// ---- from a worker, or one that wants to join, to the coordinator

/// The first message: which process this is, and the facts that must be equal on all workers.
struct Hello {
  Facts facts;
  std::string host;      ///< its name
  std::string identity;  ///< host_identity()
  int pid = 0;
};

/// Has left its generation and is ready for the next one.
struct Ready {
  int64_t generation = 0;
  int64_t step = -1;     ///< the finished steps of the state it has in memory; -1: it has none
  std::string why = {};  ///< which worker it lost; "" if it left as it was asked to
};

/// Heartbeat, with the number of finished steps.
struct Beat {
  int64_t step = -1;
};

/// Leaves for good: the run has ended or was stopped.
struct Bye {};

/// Wants to leave after the current step; the job continues.
struct Resign {};

/// Leaves for good because of an error that would occur again; the job must end.
struct Fail {
  std::string why;
  int exit_code = 1;
};

// ---- from `lockstep workers` to the coordinator

/// Asks for the list of workers, or sets their number.
struct Control {
  std::optional<int> workers;
};

// ---- from the coordinator to a worker

struct Go {
  int64_t generation = 0;
  int rank = 0;
  int world = 1;
  uint16_t port = 0;     ///< where rank 0 listens, on the coordinator's host
  bool last = false;     ///< too few workers are left: only write a checkpoint
  std::string why = {};  ///< which worker the previous generation lost
};

/// Leave the generation: at once, because a worker was lost, or after the current step.
struct Leave {
  int64_t generation = 0;
  bool at_once = false;
  std::string why = {};
};

/// This worker is not needed any more and must end.
struct Dismiss {
  bool refused = false;  ///< it was not admitted
  std::string why;
};

/// The answer to Control.
struct Status {
  std::string text;
  bool refused = false;
};

std::string encode(const Hello& hello);
std::string encode(const Ready& ready);
std::string encode(const Beat& beat);
std::string encode(const Bye& bye);
std::string encode(const Resign& resign);
std::string encode(const Fail& fail);
std::string encode(const Control& control);
std::string encode(const Go& go);
std::string encode(const Leave& leave);
std::string encode(const Dismiss& dismiss);
std::string encode(const Status& status);

/// Parses a message of this kind; nothing if the text is something else. Only types are checked,
/// not values.
template <typename Message>
std::optional<Message> parse(const std::string& text);
template <>
std::optional<Hello> parse(const std::string& text);
template <>
std::optional<Ready> parse(const std::string& text);
template <>
std::optional<Beat> parse(const std::string& text);
template <>
std::optional<Bye> parse(const std::string& text);
template <>
std::optional<Resign> parse(const std::string& text);
template <>
std::optional<Fail> parse(const std::string& text);
template <>
std::optional<Control> parse(const std::string& text);
template <>
std::optional<Go> parse(const std::string& text);
template <>
std::optional<Leave> parse(const std::string& text);
template <>
std::optional<Dismiss> parse(const std::string& text);
template <>
std::optional<Status> parse(const std::string& text);

}  // namespace lockstep::elastic
