#include "base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 5> kPrefixes = {"", "K", "M", "G", "T"};

}  // namespace

int64_t parse_bytes(std::string_view text) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit;
  for (const char c : std::string_view(rest, text.data() + text.size() - rest))
    if (c != ' ') unit += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (unit.ends_with('B')) unit.pop_back();
  if (unit.ends_with('I')) unit.pop_back();
  for (size_t power = 0; error == std::errc() && number >= 0 && power < kPrefixes.size(); ++power) {
    const double bytes = number * std::pow(1024.0, static_cast<double>(power));
    if (unit != kPrefixes[power]) continue;
    if (bytes >= 9e18) throw BadInput("'{}' is more than memory can be: at most 7 EiB", text);
    return static_cast<int64_t>(bytes);
  }
  throw BadInput("'{}' is not a size: expected a number and a unit, such as 8GiB, 25MiB or 64K",
                 text);
}

std::string format_bytes(int64_t bytes) {
  auto value = static_cast<double>(bytes);
  size_t power = 0;
  while (value >= 1024 && power + 1 < kPrefixes.size()) {
    value /= 1024;
    ++power;
  }
  return power == 0 ? fmt::format("{} B", bytes)
                    : fmt::format("{:.{}f} {}iB", value, value < 10 ? 1 : 0, kPrefixes[power]);
}

std::string format_duration(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string format_count(int64_t count) {
  std::string digits = std::to_string(count < 0 ? -count : count);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  if (count < 0) digits.insert(digits.begin(), '-');
  return digits;
}

std::string format_loss(double loss) {
  return std::abs(loss) < 0.1 ? fmt::format("{:.4g}", loss) : fmt::format("{:.4f}", loss);
}

std::string plural(int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace lockstep
