#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::launch {

/// A host on which workers are to be started.
struct ListedHost {
  std::string name;  ///< as ssh knows it: "node1", "user@10.0.0.7", an alias of its configuration
  int slots = 1;     ///< how many workers
};

/// Reads a list of hosts: a line `HOST [slots=N]` for each, `#` begins a comment. Throws BadInput
/// with the file's name and line.
std::vector<ListedHost> read_hosts(const std::filesystem::path& file, int default_slots);

/// Reads hosts from a list of names, "node1,user@node2". Throws BadInput.
std::vector<ListedHost> parse_hosts(const std::string& names);

/// "user@node1" -> "node1": where other hosts reach it.
std::string address_of(const ListedHost& host);

}  // namespace lockstep::launch
