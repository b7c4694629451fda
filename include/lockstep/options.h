#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// What a recipe says about a model, data set or objective in a table of its own, such as
/// [model.options]. Whoever is made from them asks for the keys that it knows, each with the value
/// it takes when the recipe says nothing:
///
///     const int64_t width = options.integer("width", 64);
///
/// A key that nobody has asked for is refused: it may be misspelt.
class Options {
 public:
  Options() = default;
  /// `values` by key, as a recipe writes them: 64, 0.5, true, "text", [1.0, 2.0].
  explicit Options(std::map<std::string, std::string> values) : values_(std::move(values)) {}
  Options(std::initializer_list<std::pair<const std::string, std::string>> values)
      : values_(values) {}

  /// Each throws BadInput when the value is not of that kind.
  int64_t integer(const std::string& key, int64_t otherwise) const;
  double number(const std::string& key, double otherwise) const;
  bool flag(const std::string& key, bool otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  std::vector<double> numbers(const std::string& key, std::vector<double> otherwise) const;

  /// Throws BadInput with the nearest known key for one that was never asked for. `of` is what they
  /// are for: "model 'mlp'".
  void refuse_unknown(const std::string& of) const;

  const std::map<std::string, std::string>& values() const { return values_; }
  bool operator==(const Options& other) const { return values_ == other.values_; }

 private:
  const std::string* find(const std::string& key) const;

  std::map<std::string, std::string> values_;
  mutable std::set<std::string> known_;  ///< what was asked for
};

}  // namespace lockstep
