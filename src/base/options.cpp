#include "lockstep/options.h"

#include <fmt/ranges.h>

#include <type_traits>
#include <utility>

#include "base/nearest.h"
#include "base/toml_value.h"
#include "lockstep/error.h"

namespace lockstep {
const std::string* Options::find(const std::string& key) const {
  known_.insert(key);
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

template <typename T>
T Options::value_or(const std::string& key, T otherwise, const char* expected) const {
  const std::string* const value = find(key);
  if (value == nullptr) return otherwise;
  TomlValue parsed = toml_value_or_text(*value);
  if constexpr (std::is_same_v<T, double>)
    if (const auto* whole = std::get_if<int64_t>(&parsed)) return static_cast<double>(*whole);
  if (T* const found = std::get_if<T>(&parsed)) return std::move(*found);
  const std::string name = table_.empty() ? "option " + key : table_ + "." + key;
  throw BadInput("{} = {}: expected {}", name, *value, expected);
}

int64_t Options::integer(const std::string& key, int64_t otherwise) const {
  return value_or(key, otherwise, "a whole number of at most 64 bits, such as 64");
}

double Options::number(const std::string& key, double otherwise) const {
  return value_or(key, otherwise, "a finite number, such as 0.5");
}

bool Options::flag(const std::string& key, bool otherwise) const {
  return value_or(key, otherwise, "true or false");
}

std::string Options::text(const std::string& key, const std::string& otherwise) const {
  return value_or(key, otherwise, "a text in quotes");
}

std::vector<double> Options::numbers(const std::string& key, std::vector<double> otherwise) const {
  return value_or(key, std::move(otherwise), "a list of finite numbers, such as [1.0, 2.0]");
}

void Options::refuse_unknown(const std::string& of) const {
  for (const auto& [key, value] : values_) {
    if (known_.contains(key)) continue;
    if (known_.empty())
      throw BadInput("{}: takes no options, but '{}' is set; leave it out", of, key);
    const std::vector<std::string> known(known_.begin(), known_.end());
    throw BadInput("{}: has no option '{}'{}; there are: {}", of, key, did_you_mean(key, known),
                   fmt::join(known, ", "));
  }
}

}  // namespace lockstep
