#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Options of a model, data set or objective: a table of the recipe, such as [model.options]. Ask
/// for each key that you know, with its default value:
///
///     const int64_t width = options.integer("width", 64);
///     const double dropout = options.number("dropout", 0.5);
///
/// Each function throws BadInput if the value has another type. After the model, data set or
/// objective was made, keys that it never asked for are refused, since they may be misspelt.
class Options {
 public:
  Options() = default;
  /// `values` by key, as a recipe writes them: 64, 0.5, true, "text", [1.0, 2.0]. `table` is the
  /// recipe's table they are from, such as "model.options"; messages name it.
  explicit Options(std::map<std::string, std::string> values, std::string table = {})
      : values_(std::move(values)), table_(std::move(table)) {}
  /// The same, for tests: Options{{"width", "64"}}.
  Options(std::initializer_list<std::pair<const std::string, std::string>> values)
      : values_(values) {}

  /// An integer, such as 64.
  int64_t integer(const std::string& key, int64_t otherwise) const;
  /// A number, such as 0.5.
  double number(const std::string& key, double otherwise) const;
  /// true or false.
  bool flag(const std::string& key, bool otherwise) const;
  /// A string, such as "bilinear".
  std::string text(const std::string& key, const std::string& otherwise) const;
  /// A list of numbers, such as [1.0, 2.0].
  std::vector<double> numbers(const std::string& key, std::vector<double> otherwise) const;

  /// Throws BadInput for a key that was never asked for, and suggests the nearest one. `of` names
  /// the owner in the message: "model 'mlp'".
  void refuse_unknown(const std::string& of) const;

  /// The values by key, as written in the recipe.
  const std::map<std::string, std::string>& values() const { return values_; }
  /// Compares the values.
  bool operator==(const Options& other) const { return values_ == other.values_; }

 private:
  const std::string* find(const std::string& key) const;
  template <typename T>
  T value_or(const std::string& key, T otherwise, const char* expected) const;

  std::map<std::string, std::string> values_;
  std::string table_;                    ///< may be empty
  mutable std::set<std::string> known_;  ///< keys that were asked for
};

}  // namespace lockstep
