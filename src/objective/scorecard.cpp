#include "objective/scorecard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <string_view>

#include "lockstep/error.h"

namespace lockstep {

Measurement::Measurement(const torch::Tensor& all_values) {
  const torch::Tensor flat = all_values.to(torch::kDouble).cpu().contiguous();
  values.assign(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
}

Measurement::Measurement(const torch::Tensor& all_values, const torch::Tensor& all_weights)
    : Measurement(all_values) {
  weights = Measurement(all_weights).values;
}

namespace objective {
namespace {

// The first elements of `sums`.
enum : size_t { kLoss, kWeight, kSamples, kFirstMetric };

size_t elements(const Metric& metric) {
  return static_cast<size_t>(
      std::accumulate(metric.shape.begin(), metric.shape.end(), int64_t{1}, std::multiplies<>()));
}

bool is_table(const Metric& metric) {
  return !metric.shape.empty();
}

bool has_weights(const Metric& metric) {
  return metric.combine == Metric::Combine::mean;
}

// Names are keys of events, columns of the progress line and words in scripts.
bool is_name(const std::string& name) {
  constexpr size_t kLongest = 32;
  return !name.empty() && name.size() <= kLongest && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_.@/%").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

void check(const std::vector<Metric>& metrics) {
  // Other fields of a step event, which metrics must not use.
  std::set<std::string> names = {"loss",         "event", "time",
                                 "step",         "steps", "epoch",
                                 "epochs",       "lr",    "samples_per_second",
                                 "seconds_left", "spans", "bytes_sent"};
  for (const Metric& metric : metrics) {
    if (!is_name(metric.name))
      throw BadInput(
          "the objective declares a metric '{}': expected a name of at most 32 letters, digits and "
          "characters of -_.@/%",
          metric.name);
    if (!names.insert(metric.name).second)
      throw BadInput("the objective declares a metric '{}': the name is already used", metric.name);
    if (std::any_of(metric.shape.begin(), metric.shape.end(), [](int64_t n) { return n < 1; }))
      throw BadInput("metric '{}': its table has a dimension below 1", metric.name);
    if (is_table(metric) &&
        (metric.when != Metric::When::evaluation || metric.combine == Metric::Combine::max))
      throw BadInput("metric '{}': a table must be for evaluation only, combined by sum or mean",
                     metric.name);
  }
}

std::vector<Metric> of_phase(std::vector<Metric> metrics, Phase phase) {
  check(metrics);
  if (phase == Phase::training)
    std::erase_if(metrics, [](const Metric& m) { return m.when == Metric::When::evaluation; });
  return metrics;
}

void add(std::vector<double>& into, const std::vector<double>& from,
         double (*combine)(double, double)) {
  if (into.empty())
    into = from;
  else if (!from.empty())
    std::transform(into.begin(), into.end(), from.begin(), into.begin(), combine);
}

void put(std::span<double>& rest, const std::vector<double>& values) {
  std::copy(values.begin(), values.end(), rest.begin());
  rest = rest.subspan(values.size());
}

// Nested lists of a table's shape.
Json nested(std::span<const double> values, std::span<const int64_t> shape) {
  Json list = Json::array();
  if (shape.size() == 1) {
    for (const double value : values) list.push_back(value);
    return list;
  }
  const size_t part = values.size() / static_cast<size_t>(shape[0]);
  for (size_t begin = 0; begin < values.size(); begin += part)
    list.push_back(nested(values.subspan(begin, part), shape.subspan(1)));
  return list;
}

// Sums of other numbers would depend on the order of addition, and so on the number of workers.
void check_counts(const Metric& metric, const Measurement& measurement) {
  for (const std::vector<double>* values : {&measurement.values, &measurement.weights})
    for (const double value : *values)
      if (value != std::nearbyint(value))
        throw BadInput("the objective's measurement of the table '{}' has {}: expected integers",
                       metric.name, value);
}

double divided(double value, double weight) {
  return weight == 0 ? 0 : value / weight;
}

}  // namespace

Totals& Totals::operator+=(const Totals& other) {
  loss += other.loss;
  weight += other.weight;
  samples += other.samples;
  add(sums, other.sums, [](double a, double b) { return a + b; });
  add(maxima, other.maxima, [](double a, double b) { return std::max(a, b); });
  return *this;
}

namespace {

// Numbers as texts, because metrics may be infinite and JSON has no infinity.
Json as_texts(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(fmt::format("{}", value));
  return list;
}

std::vector<double> from_texts(const Json& list) {
  std::vector<double> values;
  for (const Json& text : list)
    values.push_back(std::strtod(text.get<std::string>().c_str(), nullptr));
  return values;
}

}  // namespace

Json to_json(const Totals& totals) {
  return {{"loss", totals.loss},
          {"weight", totals.weight},
          {"samples", totals.samples},
          {"sums", as_texts(totals.sums)},
          {"maxima", as_texts(totals.maxima)}};
}

Totals totals_from(const Json& json) {
  return {.loss = json.at("loss"),
          .weight = json.at("weight"),
          .samples = json.at("samples"),
          .sums = from_texts(json.at("sums")),
          .maxima = from_texts(json.at("maxima"))};
}

Scorecard::Scorecard(std::vector<Metric> metrics, Phase phase)
    : metrics_(of_phase(std::move(metrics), phase)), phase_(phase), sums_(kFirstMetric) {
  for (const Metric& metric : metrics_) {
    const size_t count = elements(metric) * (has_weights(metric) ? 2 : 1);
    if (is_table(metric))
      tables_ += count;
    else if (metric.combine == Metric::Combine::max)
      maxima_ += count;
    else
      sums_ += count;
  }
}

void Scorecard::clear(const Slot& slot) {
  std::ranges::fill(slot.sums, 0.0);
  std::ranges::fill(slot.maxima, -std::numeric_limits<double>::infinity());
  std::ranges::fill(slot.tables, 0.0);
}

void Scorecard::score(Objective& objective, const Tensors& outputs, const Batch& batch,
                      const Loss& loss, const Slot& slot) const {
  if (!(loss.weight >= 0 && std::isfinite(loss.weight)))
    throw BadInput(
        "the objective's loss has a weight of {}: expected a finite number of at least 0",
        loss.weight);
  const std::vector<Measurement> measured = objective.measure(outputs, batch, phase_);
  if (measured.size() != metrics_.size())
    throw BadInput("the objective returned {} measurements for {}: expected {}", measured.size(),
                   phase_ == Phase::training ? "a training batch" : "an evaluation batch",
                   metrics_.size());
  slot.sums[kLoss] = loss.sum.item<double>();
  slot.sums[kWeight] = loss.weight;
  slot.sums[kSamples] = static_cast<double>(batch.samples);
  Slot rest = {slot.sums.subspan(kFirstMetric), slot.maxima, slot.tables};
  for (size_t i = 0; i < metrics_.size(); ++i) write(metrics_[i], measured[i], rest);
}

void Scorecard::write(const Metric& metric, const Measurement& measurement, Slot& rest) const {
  const size_t weights = has_weights(metric) ? elements(metric) : 0;
  if (measurement.values.size() != elements(metric) || measurement.weights.size() != weights)
    throw BadInput(
        "the objective's measurement of '{}' has {} values and {} weights: expected {} and {}",
        metric.name, measurement.values.size(), measurement.weights.size(), elements(metric),
        weights);
  std::span<double>& into = is_table(metric)                         ? rest.tables
                            : metric.combine == Metric::Combine::max ? rest.maxima
                                                                     : rest.sums;
  if (is_table(metric)) check_counts(metric, measurement);
  if (into.empty()) return;  // tables are not wanted
  std::vector<double> values = measurement.values;
  // A maximum would ignore NaN.
  if (metric.combine == Metric::Combine::max)
    for (double& value : values)
      if (std::isnan(value)) value = std::numeric_limits<double>::infinity();
  put(into, values);
  put(into, measurement.weights);
}

Totals Scorecard::totals(std::span<const double> sums, std::span<const double> maxima) const {
  return {.loss = sums[kLoss],
          .weight = sums[kWeight],
          .samples = static_cast<int64_t>(sums[kSamples]),
          .sums = {sums.begin() + kFirstMetric, sums.end()},
          .maxima = {maxima.begin(), maxima.end()}};
}

template <typename Visit>
void Scorecard::visit_figures(const Totals& totals, const Visit& visit) const {
  visit("loss", totals.loss, totals.weight);
  auto sum = totals.sums.begin();
  auto maximum = totals.maxima.begin();
  const bool some = totals.samples > 0;  // else there are no sums
  for (const Metric& metric : metrics_) {
    if (is_table(metric)) continue;
    if (!some) {
      visit(metric.name, 0.0, 0.0);
    } else if (metric.combine == Metric::Combine::max) {
      visit(metric.name, *maximum++, 1.0);
    } else {
      const double value = *sum++;
      visit(metric.name, value, has_weights(metric) ? *sum++ : 1.0);
    }
  }
}

Json Scorecard::figures(const Totals& totals, const std::string& prefix) const {
  Json figures = Json::object();
  visit_figures(totals, [&](const std::string& name, double value, double weight) {
    figures[prefix + name] = divided(value, weight);
  });
  return figures;
}

double Scorecard::figure(const Totals& totals, const std::string& name) const {
  double found = std::nan("");
  visit_figures(totals, [&](const std::string& known, double value, double weight) {
    if (known == name && weight != 0) found = value / weight;
  });
  return found;
}

Json Scorecard::table_figures(std::span<const double> tables) const {
  Json figures = Json::object();
  for (const Metric& metric : metrics_) {
    if (!is_table(metric)) continue;
    const size_t count = elements(metric);
    std::vector<double> values(tables.begin(), tables.begin() + static_cast<int64_t>(count));
    if (has_weights(metric))
      for (size_t i = 0; i < count; ++i) values[i] = divided(values[i], tables[count + i]);
    tables = tables.subspan(has_weights(metric) ? 2 * count : count);
    figures[metric.name] = nested(values, metric.shape);
  }
  return figures;
}

Json shown_metrics(const std::vector<Metric>& metrics) {
  Json shown = Json::object();
  for (const Metric& metric : metrics)
    if (!is_table(metric))
      shown[metric.name] = metric.print == Metric::Print::percent ? "percent" : "number";
  return shown;
}

}  // namespace objective
}  // namespace lockstep
