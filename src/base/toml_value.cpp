#include "base/toml_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

struct TomlWriter {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }

  // With enough digits for the same number, and always as a TOML float.
  std::string operator()(double value) const {
    std::string digits = fmt::format("{}", value);
    return digits.find_first_of(".en") == std::string::npos ? digits + ".0" : digits;
  }

  // JSON's escapes are also TOML's, except for one character.
  std::string operator()(const std::string& value) const {
    std::string quoted;
    for (const char c :
         nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))
      quoted += c == '\x7f' ? std::string("\\u007f") : std::string(1, c);
    return quoted;
  }

  std::string operator()(const std::vector<double>& values) const {
    std::vector<std::string> parts;
    parts.reserve(values.size());
    for (const double value : values) parts.push_back((*this)(value));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
};

}  // namespace

std::string toml_text(const TomlValue& value) {
  return std::visit(TomlWriter{}, value);
}

std::optional<TomlValue> parse_toml_value(std::string_view text) {
  try {
    const toml::table parsed = toml::parse(fmt::format("value = {}", text));
    if (parsed.size() != 1) return std::nullopt;
    return toml_value(*parsed.get("value"));
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

TomlValue toml_value_or_text(std::string_view text) {
  const std::optional<TomlValue> value = parse_toml_value(text);
  return value ? *value : TomlValue(std::string(text));
}

}  // namespace lockstep
