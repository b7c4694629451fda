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
///     const double dropout = options.number("dropout", 0.5);
///
/// Each throws BadInput when the value is not of that kind. A key that nobody has asked for is
/// refused: it may be misspelt.
class Options {
 public:
  Options() = default;
  /// `values` by key, as a recipe writes them: 64, 0.5, true, "text", [1.0, 2.0].
  explicit Options(std::map<std::string, std::string> values) : values_(std::move(values)) {}
  /// The same.
  Options(std::initializer_list<std::pair<const std::string, std::string>> values)
      : values_(values) {}

  /// A whole number: 64.
  int64_t integer(const std::string& key, int64_t otherwise) const;
  /// A number: 0.5.
  double number(const std::string& key, double otherwise) const;
  /// true or false.
  bool flag(const std::string& key, bool otherwise) const;
  /// A text: "bilinear".
  std::string text(const std::string& key, const std::string& otherwise) const;
  /// A list of numbers: [1.0, 2.0].
  std::vector<double> numbers(const std::string& key, std::vector<double> otherwise) const;

  /// Throws BadInput with the nearest known key for one that was never asked for. `of` is what they
  /// are for: "model 'mlp'".
  void refuse_unknown(const std::string& of) const;

  /// By key, as the recipe writes them.
  const std::map<std::string, std::string>& values() const { return values_; }
  /// Equal in all values, whatever was asked for.
  bool operator==(const Options& other) const { return values_ == other.values_; }

 private:
  const std::string* find(const std::string& key) const;

  std::map<std::string, std::string> values_;
  mutable std::set<std::string> known_;  ///< what was asked for
};

}  // namespace lockstep
