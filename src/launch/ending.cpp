#include "launch/ending.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

int weight(const Ending& ending) {
  if (ending.well() || ending.as_asked) return 0;
  if (ending.early) return 4;
  if (ending.hung) return 2;
  return ending.exit_code() == kLostOthers ? 1 : 3;
}

bool is_named_by(const Ending& other, int rank) {
  const std::string name = fmt::format("rank {} (", rank);
  return std::any_of(other.last_words.begin(), other.last_words.end(),
                     [&](const std::string& line) { return line.find(name) != std::string::npos; });
}

// The usual cause of a signal, if a user may not know it.
const char* usual_cause(int signal) {
  switch (signal) {
    case SIGBUS:
      return ": a memory-mapped data file was truncated, or the disk or /dev/shm is full";
    case SIGKILL:
      return ": by a user, or by the system because it ran out of memory";
    case SIGXFSZ:
      return ": a file exceeded the limit of `ulimit -f`";
    default:
      return "";
  }
}

}  // namespace

std::string Ending::text() const {
  std::string text = fmt::format("{} {} ({}, pid {}) ", noun, rank, host, pid);
  if (early)
    text += "ended with exit code 0 while other workers still needed it";
  else if (hung)
    text += "did not end in time and was killed: it hung or was stopped";
  else if (WIFSIGNALED(status))
    text += fmt::format("was killed by signal {} ({}){}", WTERMSIG(status),
                        strsignal(WTERMSIG(status)), usual_cause(WTERMSIG(status)));
  else
    text += fmt::format("ended with exit code {}", WEXITSTATUS(status));
  if (!last_words.empty())
    text += fmt::format("; end of its stderr:\n  {}", fmt::join(last_words, "\n  "));
  return text;
}

bool Ending::was_killed() const {
  return !hung && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

int Ending::exit_code() const {
  if (early) return kLostOthers;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

const Ending* first_failure(const std::vector<Ending>& endings) {
  const Ending* first = nullptr;
  for (const Ending& ending : endings) {
    const int theirs = first == nullptr ? 0 : weight(*first);
    if (weight(ending) > theirs ||
        (weight(ending) == theirs && theirs > 0 && ending.place < first->place))
      first = &ending;
  }
  return first;
}

void find_who_left_early(std::vector<Ending>& endings) {
  const Ending* const failure = first_failure(endings);
  if (failure == nullptr || weight(*failure) != 1) return;
  // Its process may end after those of the workers that noticed its leaving.
  for (Ending& ending : endings)
    if (ending.well() && is_named_by(*failure, ending.rank)) {
      ending.early = true;
      return;
    }
  const auto first =
      std::min_element(endings.begin(), endings.end(),
                       [](const Ending& a, const Ending& b) { return a.place < b.place; });
  first->early = first->well();
}

int exit_code_of(const std::vector<Ending>& endings) {
  if (const Ending* const failure = first_failure(endings)) return failure->exit_code();
  int code = 0;
  for (const Ending& ending : endings)
    if (ending.as_asked && (code == 0 || code == kLostOthers)) code = ending.exit_code();
  return code;
}

}  // namespace lockstep::launch
