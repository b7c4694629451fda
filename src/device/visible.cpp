#include "device/visible.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <set>

#include "device/kinds.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t") + 1 - begin));
}

// The entries of a comma-separated list; none if it is empty.
std::vector<std::string> entries_of(std::string_view list) {
  std::vector<std::string> entries;
  if (trimmed(list).empty()) return entries;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    entries.push_back(trimmed(list.substr(begin, end - begin)));
    begin = end + 1;
  }
  return entries;
}

std::optional<int> number_in(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// "there are virtual:0, virtual:1", "there are none"
std::string those_there_are(const std::string& kind, const std::vector<int>& devices) {
  constexpr size_t kMany = 8;
  if (devices.empty()) return fmt::format("there is no {} device", kind);
  if (devices.size() == 1) return fmt::format("there is {}:{}", kind, devices[0]);
  if (devices.size() > kMany && devices.back() - devices.front() + 1 == std::ssize(devices))
    return fmt::format("there are {0}:{1} to {0}:{2}", kind, devices.front(), devices.back());
  std::vector<std::string> names;
  for (const int device : devices) names.push_back(fmt::format("{}:{}", kind, device));
  return fmt::format("there are {}", fmt::join(names, ", "));
}

// `as_written` is the whole variable or flag, for messages.
std::vector<int> numbers_of(const std::string& as_written, const std::string& list) {
  std::vector<int> numbers;
  for (const std::string& entry : entries_of(list)) {
    const std::optional<int> number = number_in(entry);
    if (!number && entry.find(':') != std::string::npos)
      throw BadInput(
          "{}: '{}' names a kind of device again; all are of one kind, which is written once, as "
          "in virtual:0,2",
          as_written, entry);
    if (!number)
      throw BadInput("{}: '{}' is not a device's number; expected a list such as 0,2", as_written,
                     entry);
    if (std::find(numbers.begin(), numbers.end(), *number) != numbers.end())
      throw BadInput("{}: device {} is listed twice; list each once", as_written, *number);
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<int> those_of(const std::string& as_written, const std::vector<int>& numbers,
                          const std::string& kind, const std::vector<int>& there) {
  for (const int number : numbers)
    if (std::find(there.begin(), there.end(), number) == there.end())
      throw BadInput("{}: {}:{} is not available; {}", as_written, kind, number,
                     those_there_are(kind, there));
  return numbers;
}

// CUDA ignores what follows an entry that it does not know, without a message.
void check_cuda_variable(const std::string& list, int count) {
  const std::string as_written = "CUDA_VISIBLE_DEVICES=" + list;
  const std::vector<std::string> entries = entries_of(list);
  if (entries == std::vector<std::string>{"-1"}) return;  // none, as many write it
  for (const std::string& entry : entries)
    if (!number_in(entry) && !entry.starts_with("GPU-") && !entry.starts_with("MIG-"))
      throw BadInput("{}: '{}' is neither a device's number nor an identity such as GPU-8932f937",
                     as_written, entry);
  if (const std::set<std::string> different(entries.begin(), entries.end());
      different.size() < entries.size())
    throw BadInput("{}: a device is listed twice; list each once", as_written);
  if (std::ssize(entries) != count)
    throw BadInput("{}: lists {} devices, but CUDA finds {} of them; `nvidia-smi -L` lists all",
                   as_written, entries.size(), count);
}

std::string text_of(const DeviceSelection& selection) {
  return selection.count
             ? fmt::format("--devices {}:{}", selection.kind, *selection.count)
             : fmt::format("--devices {}:{}", selection.kind, fmt::join(selection.numbers, ","));
}

}  // namespace

VisibleVariables visible_variables() {
  return {variable("LOCKSTEP_VISIBLE_DEVICES"), variable("CUDA_VISIBLE_DEVICES")};
}

DeviceSelection parse_devices(const std::string& text) {
  const std::string as_written = "--devices " + text;
  const size_t colon = text.find(':');
  const DeviceKindRow* const kind = device_kinds().find(text.substr(0, colon));
  if (kind == nullptr || kind->count == DeviceKindRow::Count::one_per_worker ||
      colon == std::string::npos)
    throw BadInput(
        "{}: expected how many virtual devices there are (virtual:4), or which devices to use "
        "(virtual:0,2 or cuda:0,1)",
        as_written);
  DeviceSelection selection{.kind = kind->name};
  const std::string list = text.substr(colon + 1);
  selection.numbers = numbers_of(as_written, list);
  if (selection.numbers.empty()) throw BadInput("{}: lists no device", as_written);
  if (kind->count != DeviceKindRow::Count::as_asked || selection.numbers.size() > 1)
    return selection;
  selection.count = selection.numbers.front();
  selection.numbers.clear();
  if (*selection.count < 1 || *selection.count > kMostVirtualDevices)
    throw BadInput(
        "{}: one number says how many virtual devices there are, 1 to {}; to choose some of them, "
        "list several (virtual:0,2) or set LOCKSTEP_VISIBLE_DEVICES",
        as_written, kMostVirtualDevices);
  return selection;
}

std::vector<int> visible_devices(const std::string& kind, int count,
                                 const VisibleVariables& variables,
                                 const std::optional<DeviceSelection>& selection) {
  if (selection && selection->kind != kind)
    throw BadInput("{}: the recipe's device.kind is {}; add --device {}, or leave --devices out",
                   text_of(*selection), kind, selection->kind);
  if (kind == "cuda" && variables.cuda) check_cuda_variable(*variables.cuda, count);
  std::vector<int> devices(
      static_cast<size_t>(selection && selection->count ? *selection->count : count));
  std::iota(devices.begin(), devices.end(), 0);
  if (variables.lockstep) {
    const std::string as_written = "LOCKSTEP_VISIBLE_DEVICES=" + *variables.lockstep;
    devices = those_of(as_written, numbers_of(as_written, *variables.lockstep), kind, devices);
  }
  if (!selection || selection->numbers.empty()) return devices;
  return those_of(text_of(*selection), selection->numbers, kind, devices);
}

std::vector<int> all_devices_of_worker(const std::string& kind, int count,
                                       const VisibleVariables& variables,
                                       const std::optional<DeviceSelection>& selection) {
  if (device_kinds().at(kind).count == DeviceKindRow::Count::as_asked && !selection &&
      !variables.lockstep)
    throw BadInput(
        "--parallel dp: on which {0} devices? Give --devices {0}:2, or which ones (--devices "
        "{0}:0,2)",
        kind);
  std::vector<int> all = visible_devices(kind, count, variables, selection);
  if (all.empty())
    throw BadInput("--parallel dp: {}; make some visible (--devices, LOCKSTEP_VISIBLE_DEVICES)",
                   those_there_are(kind, all));
  return all;
}

int device_of_worker(const std::string& kind, const std::vector<int>& visible, int local_rank,
                     std::optional<int> workers) {
  if (static_cast<size_t>(local_rank) < visible.size())
    return visible[static_cast<size_t>(local_rank)];
  throw BadInput(
      "{} on this host, and each needs a device of its own, but {}; start fewer workers, or make "
      "more devices visible (--devices, LOCKSTEP_VISIBLE_DEVICES)",
      workers ? fmt::format("{} workers are to start", *workers)
              : fmt::format("there are at least {} workers", local_rank + 1),
      those_there_are(kind, visible));
}

int device_of_stage(const std::string& kind, const std::vector<int>& visible, int stage,
                    int stages) {
  if (static_cast<size_t>(stage) < visible.size()) return visible[static_cast<size_t>(stage)];
  throw BadInput(
      "1 worker with {} stages (--stages), and each stage needs a device of its own, but {}; take "
      "fewer stages, or make more devices visible (--devices, LOCKSTEP_VISIBLE_DEVICES)",
      stages, those_there_are(kind, visible));
}

}  // namespace lockstep
