#include "launch/report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

// Holds the pipe's descriptor and identity: a process between the launcher and this one may have
// closed the descriptor and opened something else under its number.
constexpr const char* kPipeVariable = "LOCKSTEP_LAUNCHER_PIPE";

std::string name_of(int descriptor) {
  struct stat about = {};
  if (fstat(descriptor, &about) != 0 || !S_ISFIFO(about.st_mode)) return "";
  return fmt::format("{}:{}:{}", descriptor, about.st_dev, about.st_ino);
}

}  // namespace

void tell_launcher(int rank, Stage stage) {
  const char* const name = std::getenv(kPipeVariable);
  const int descriptor = name == nullptr ? -1 : std::atoi(name);
  if (descriptor <= STDERR_FILENO || name_of(descriptor) != name) return;
  const Reports::Report report{.rank = rank, .stage = stage};
  while (write(descriptor, &report, sizeof report) < 0 && errno == EINTR) continue;
}

Reports::Reports() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error(fmt::format("cannot make a pipe for workers' reports: {}; see ulimit -n",
                            std::strerror(errno)));
  read_end_ = ends[0];
  write_end_ = ends[1];
}

Reports::~Reports() {
  close(read_end_);
  close(write_end_);
}

void Reports::reach_from_this_process() const {
  close(read_end_);
  fcntl(write_end_, F_SETFD, 0);
  setenv(kPipeVariable, name_of(write_end_).c_str(), 1);
}

std::vector<Reports::Report> Reports::take() const {
  std::vector<Report> reports;
  for (Report report{}; read(read_end_, &report, sizeof report) == sizeof report;)
    reports.push_back(report);
  return reports;
}

}  // namespace lockstep::launch
