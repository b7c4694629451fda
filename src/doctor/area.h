#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/table.h"
#include "doctor/cpu_times.h"
#include "doctor/finding.h"
#include "launch/hosts_file.h"
#include "launch/ssh.h"
#include "train/libtorch_facts.h"

namespace lockstep::doctor {

/// What the user asked for.
struct Request {
  std::vector<launch::ListedHost> hosts = {};
  launch::SshOptions ssh = {};
  /// The kind of device to train on, if training is to be tried.
  std::optional<std::string> self_test = {};
};

/// liblockstep, if it could be loaded.
struct Library {
  std::optional<train::LibTorchFacts> facts = {};
  void* handle = nullptr;    ///< as of dlopen
  std::string failure = {};  ///< why it could not
};

/// What every area may look at.
struct Visit {
  Request request = {};
  Library library = {};
  CpuTimes before = {};              ///< since when processor time is counted
  std::filesystem::path root = "/";  ///< where /proc and /sys are
};

/// A part of the machine or of the program. `examine` gathers its facts, a plain struct, and gives
/// them to its `judge`, a pure function from facts to findings.
struct AreaRow {
  std::string name;
  std::string about;
  int place;  ///< areas are shown in this order
  Section (*examine)(const Visit& visit);
};

Table<AreaRow>& areas();

}  // namespace lockstep::doctor
