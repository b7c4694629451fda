#include "launch/ending.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstring>

#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

int weight(const Ending& ending) {
  if (ending.well()) return 0;
  if (ending.hung) return 2;
  return ending.exit_code() == kLostOthers ? 1 : 3;
}

}  // namespace

std::string Ending::text() const {
  std::string text = fmt::format("rank {} ({}, pid {}) ", rank, host, pid);
  if (hung)
    text += "did not end and had to be killed: it hung, or was stopped";
  else if (WIFSIGNALED(status))
    text +=
        fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  else
    text += fmt::format("ended with exit code {}", WEXITSTATUS(status));
  if (!last_words.empty())
    text += fmt::format("; the last it wrote to stderr:\n  {}", fmt::join(last_words, "\n  "));
  return text;
}

int Ending::exit_code() const {
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

}  // namespace lockstep::launch
