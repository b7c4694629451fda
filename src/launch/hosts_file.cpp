#include "launch/hosts_file.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/atomic_file.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr int kMostSlots = 256;
constexpr std::string_view kSlots = "slots=";

int slots_in(const std::string& word, const std::string& where) {
  const char* const begin = word.data() + kSlots.size();
  const char* const end = word.data() + word.size();
  int slots = 0;
  const auto [last, error] = std::from_chars(begin, end, slots);
  if (error != std::errc() || last != end || slots < 1 || slots > kMostSlots)
    throw BadInput("{}: {}: expected slots=1 to slots={}", where, word, kMostSlots);
  return slots;
}

void add_host(std::vector<ListedHost>& hosts, const std::string& line, int default_slots,
              const std::string& where) {
  std::istringstream words(line.substr(0, line.find('#')));
  ListedHost host{.name = "", .slots = default_slots};
  if (!(words >> host.name)) return;
  // ssh would take it for one of its options.
  if (host.name.starts_with('-') || host.name.find('=') != std::string::npos)
    throw BadInput("{}: '{}' is not a host's name; expected HOST [slots=N]", where, host.name);
  for (std::string word; words >> word;) {
    if (!word.starts_with(kSlots)) throw BadInput("{}: '{}': expected HOST [slots=N]", where, word);
    host.slots = slots_in(word, where);
  }
  if (std::any_of(hosts.begin(), hosts.end(),
                  [&](const ListedHost& other) { return other.name == host.name; }))
    throw BadInput("{}: {} is listed twice; give the number of its workers by slots=N", where,
                   host.name);
  hosts.push_back(host);
}

}  // namespace

std::vector<ListedHost> parse_hosts(const std::string& names) {
  std::istringstream words(names);
  std::vector<ListedHost> hosts;
  for (std::string name; std::getline(words, name, ',');)
    add_host(hosts, name, 1, fmt::format("--hosts {}", names));
  if (hosts.empty()) throw BadInput("--hosts '{}': expected HOST,HOST,... or a file", names);
  return hosts;
}

std::vector<ListedHost> read_hosts(const std::filesystem::path& file, int default_slots) {
  if (!std::filesystem::is_regular_file(file))
    throw BadInput("--hosts {}: no such file", file.string());
  std::istringstream lines(read_file(file));
  std::vector<ListedHost> hosts;
  int number = 0;
  for (std::string line; std::getline(lines, line);)
    add_host(hosts, line, default_slots,
             fmt::format("--hosts {}, line {}", file.string(), ++number));
  if (hosts.empty())
    throw BadInput("--hosts {}: lists no host; expected lines HOST [slots=N]", file.string());
  return hosts;
}

std::string address_of(const ListedHost& host) {
  return host.name.substr(host.name.find('@') + 1);
}

}  // namespace lockstep::launch
