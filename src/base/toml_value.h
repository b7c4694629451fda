#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lockstep {

/// A value of a recipe. Numbers are finite.
using TomlValue = std::variant<bool, int64_t, double, std::string, std::vector<double>>;

/// The value as TOML: true, 64, 0.5, "text", [1.0, 2.0]. Parsing it gives the same value.
std::string toml_text(const TomlValue& value);

/// Parses a value as written in a recipe; nothing if it is invalid, such as a word without quotes,
/// a date or nan.
std::optional<TomlValue> parse_toml_value(std::string_view text);

/// The same, but anything invalid is taken as text, since a shell removes quotes.
TomlValue toml_value_or_text(std::string_view text);

/// Converts a toml::node; nothing for tables, dates, nan, inf and lists of anything but numbers. (A
/// template, so that only files that read TOML include toml++, which is large.)
template <typename Node>
std::optional<TomlValue> toml_value(const Node& node) {
  const auto finite_number = [](const auto& element) -> std::optional<double> {
    if (!element.is_number()) return std::nullopt;
    const double number = element.template value<double>().value_or(std::nan(""));
    return std::isfinite(number) ? std::optional(number) : std::nullopt;
  };
  if (node.is_boolean()) return *node.template value<bool>();
  if (node.is_integer()) return *node.template value<int64_t>();
  if (node.is_string()) return *node.template value<std::string>();
  if (!node.is_array()) return finite_number(node);
  std::vector<double> numbers;
  for (const auto& element : *node.as_array()) {
    const std::optional<double> number = finite_number(element);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace lockstep
