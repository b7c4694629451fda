#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lockstep {

/// A value as recipes have it. Numbers are finite.
using TomlValue = std::variant<bool, int64_t, double, std::string, std::vector<double>>;

/// As TOML: true, 64, 0.5, "text", [1.0, 2.0]. Reads back to the same value.
std::string toml_text(const TomlValue& value);

/// The value that stands in a recipe as `text`. Nothing where it is none, such as a word without
/// quotes, a date or nan.
std::optional<TomlValue> parse_toml_value(std::string_view text);

/// As above; what is no value is itself a text, since a shell takes quotes away.
TomlValue toml_value_or_text(std::string_view text);

/// From a toml::node. Nothing for tables, dates, nan, inf and lists of other things than numbers.
/// (A template, so that only files that read TOML include toml++, which is large.)
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
