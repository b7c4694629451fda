#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/nearest.h"
#include "lockstep/error.h"

namespace lockstep {

/// A table of things that are chosen by name: algorithms, transports, models, data sets. A row has
/// at least a `name` and a description of one line, `about`. Help texts, messages and `lockstep
/// list` are made from the table, so that adding something means adding one row, in the file that
/// implements it:
///
///     Table<ModelRow>& models();                      // in the header
///     const bool added = models().add({"mlp", "two hidden layers of 512", make_mlp});
template <typename Row>
class Table {
 public:
  /// Messages call a row `kind`: "model".
  explicit Table(std::string kind) : kind_(std::move(kind)) {}

  /// References to rows stay valid as long as the table exists. Throws BadInput if the name is
  /// taken. Returns true.
  bool add(Row row) {
    if (find(row.name) != nullptr)
      throw BadInput("there are two {}s named '{}'; rename one of them", kind_, row.name);
    const auto place = std::upper_bound(
        rows_.begin(), rows_.end(), row.name,
        [](const std::string& name, const auto& other) { return name < other->name; });
    rows_.insert(place, std::make_unique<const Row>(std::move(row)));
    return true;
  }

  /// nullptr if there is none of that name.
  const Row* find(std::string_view name) const {
    for (const auto& row : rows_)
      if (row->name == name) return row.get();
    return nullptr;
  }

  /// Throws BadInput with the nearest name.
  const Row& at(std::string_view name) const {
    if (const Row* row = find(name)) return *row;
    const std::vector<std::string> known = names();
    throw BadInput("'{}': no such {}{}; there are: {}", name, kind_, did_you_mean(name, known),
                   fmt::join(known, ", "));
  }

  /// In the order of their names.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& row : rows_) all.push_back(row->name);
    return all;
  }

  /// One line per row: its name and description.
  std::string help() const {
    std::string text;
    for (const auto& row : rows_) text += fmt::format("  {:<18} {}\n", row->name, row->about);
    return text;
  }

  const std::string& kind() const { return kind_; }
  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }

 private:
  std::string kind_;
  std::vector<std::unique_ptr<const Row>> rows_;
};

}  // namespace lockstep
