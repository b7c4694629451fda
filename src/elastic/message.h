#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/agreement.h"

namespace lockstep::elastic {

/// A generation is what a job does between two meetings of its workers: it begins when all know
/// who belongs to it, and ends when somebody is lost, comes or goes.

// ---- a worker, or who wants to become one, to the coordinator

/// The first word: who this is, and what it must hold alike with all others to work with them.
struct Hello {
  Facts facts;
  std::string host;      ///< its name
  std::string identity;  ///< as host_identity gives it
  int pid = 0;
};

/// Out of its generation, and ready for the next.
struct Ready {
  int64_t generation = 0;
  int64_t step = -1;     ///< finished steps that it has in memory; -1: it has no memory
  std::string why = {};  ///< whom it lost; "" where it left as it was asked to
};

/// Still there.
struct Beat {
  int64_t step = -1;
};

/// Leaves for good: the run has come to its end or was stopped.
struct Bye {};

/// Wants to leave after the step under way; the job goes on.
struct Resign {};

/// Leaves for good by an error that would happen again; the job is to end.
struct Fail {
  std::string why;
  int exit_code = 1;
};

// ---- who controls the job from outside

/// Asks who is there, and sets how many there are to be.
struct Control {
  std::optional<int> workers;
};

// ---- the coordinator to a worker

struct Go {
  int64_t generation = 0;
  int rank = 0;
  int world = 1;
  uint16_t port = 0;     ///< where rank 0 listens, on the coordinator's host
  bool last = false;     ///< too few are left: it only writes a checkpoint
  std::string why = {};  ///< whom the generation before lost
};

/// Leave the generation: at once, since somebody is lost; or after the step under way.
struct Leave {
  int64_t generation = 0;
  bool at_once = false;
  std::string why = {};
};

/// Nothing is left to do for this worker.
struct Dismiss {
  bool refused = false;  ///< it was never let in
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

/// What has come, if it is such a message: nothing in it is believed beyond its type.
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
