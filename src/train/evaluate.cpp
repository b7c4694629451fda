#include "train/evaluate.h"

#include <torch/types.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "base/range.h"
#include "data/loader.h"
#include "device/memory_account.h"
#include "device/random.h"
#include "parallel/outgoing.h"
#include "train/batch_tensors.h"
#include "train/outputs.h"
#include "train/user_code.h"

namespace lockstep::train {
namespace {

using objective::Scorecard;
using parallel::concatenated;
using parallel::narrowed;

// The results of all workers in the order of batches, so that sums do not depend on which worker
// computed which batch.
class Results {
 public:
  Results(const Scorecard& scorecard, int64_t batches)
      : scorecard_(scorecard),
        sums_(scorecard.sums() * static_cast<size_t>(batches)),
        maxima_(scorecard.maxima()),
        tables_(scorecard.tables()),
        table_(scorecard.tables()) {
    Scorecard::clear({sums_, maxima_, tables_});
  }

  /// Where to score a batch; call `added` afterwards.
  Scorecard::Slot slot(int64_t batch) {
    batch_maxima_.resize(maxima_.size());
    return {
        std::span(sums_).subspan(static_cast<size_t>(batch) * scorecard_.sums(), scorecard_.sums()),
        batch_maxima_, table_};
  }
  void added() {
    for (size_t i = 0; i < maxima_.size(); ++i) maxima_[i] = std::max(maxima_[i], batch_maxima_[i]);
    for (size_t i = 0; i < tables_.size(); ++i) tables_[i] += table_[i];
  }

  Evaluation of_all(collective::Communicator& group) {
    all_reduce(sums_, Operation::sum, group);
    all_reduce(maxima_, Operation::max, group);
    all_reduce(tables_, Operation::sum, group);
    objective::Totals totals;
    for (size_t begin = 0; begin < sums_.size(); begin += scorecard_.sums())
      totals += scorecard_.totals(std::span(sums_).subspan(begin, scorecard_.sums()), maxima_);
    return {std::move(totals), std::move(tables_)};
  }

 private:
  static void all_reduce(std::vector<double>& values, Operation operation,
                         collective::Communicator& group) {
    if (values.empty()) return;
    group.all_reduce({reinterpret_cast<std::byte*>(values.data()),
                      static_cast<int64_t>(values.size()), Type::f64},
                     operation);
  }

  const Scorecard& scorecard_;
  std::vector<double> sums_;  ///< by batch
  std::vector<double> maxima_;
  std::vector<double> tables_;
  std::vector<double> batch_maxima_;
  std::vector<double> table_;  ///< of one batch
};

// A model in evaluation mode. Afterwards its buffers are as they were before: changes would depend
// on which worker evaluates which batch, also if another worker is lost meanwhile.
class InEvaluation {
 public:
  explicit InEvaluation(Model& model) : model_(model) {
    for (const torch::Tensor& buffer : model.buffers()) kept_.emplace_back(buffer, buffer.clone());
    model.eval();
  }
  InEvaluation(const InEvaluation&) = delete;
  InEvaluation& operator=(const InEvaluation&) = delete;
  ~InEvaluation() {
    try {
      leave();
    } catch (const std::exception&) {  // another one is on its way already
    }
  }

  void leave() {
    if (!std::exchange(entered_, false)) return;
    model_.train();
    for (const auto& [buffer, before] : kept_) torch::Tensor(buffer).copy_(before);
  }

 private:
  Model& model_;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> kept_;
  bool entered_ = true;
};

// A batch and a model's outputs for it, both on the model's device or, if that has too little
// memory, on the host.
struct Computed {
  Batch batch;
  Tensors outputs;
};

// The model computes `at_once` samples of a batch, which is on the host, at a time. If they need
// too much memory, it computes half as many from then on.
Computed outputs_by_pieces(const parallel::ModelPart& model, const std::vector<Field>& expected,
                           const Batch& batch, const CallPlace& place, int64_t& at_once) {
  const c10::Device device = model.device();
  while (true) {
    try {
      if (at_once >= batch.samples) {
        const Batch there = moved(batch, device);
        return {there, outputs_of(model, there.inputs, expected, place)};
      }
      std::vector<Tensors> pieces;
      for (int64_t begin = 0; begin < batch.samples; begin += at_once) {
        const int64_t samples = std::min(at_once, batch.samples - begin);
        const Tensors inputs = moved(narrowed(batch.inputs, begin, samples), device);
        pieces.push_back(moved(
            outputs_of(model, inputs, expected, {place.kind, place.number, samples}), c10::kCPU));
      }
      return {batch, concatenated(pieces)};
    } catch (const OutOfMemory& error) {
      at_once = std::min(at_once, batch.samples) / 2;
      if (at_once == 0)
        throw OutOfMemory(error.device(), error.asked(), error.in_use(), error.limit(),
                          fmt::format("{}; this was the evaluation of a single sample: set "
                                      "device.memory to more, or use a smaller model",
                                      error.what()));
    }
  }
}

// The same by stages: pieces go through this worker's parts, and on to those of the next worker.
// Only the last part's worker gets outputs.
Computed outputs_by_stages(const std::vector<EvaluatedModel::Part>& parts,
                           const std::vector<Field>& expected, const Batch& batch,
                           const CallPlace& place, int64_t at_once) {
  std::vector<Tensors> pieces;
  for (int64_t begin = 0; begin < place.samples; begin += at_once) {
    const CallPlace here = {place.kind, place.number, std::min(at_once, place.samples - begin)};
    for (const auto& [part, links] : parts) {
      const Tensors inputs = part.is_first()
                                 ? moved(narrowed(batch.inputs, begin, here.samples), part.device())
                                 : links.inputs->receive().tensors;
      if (part.is_last()) {
        pieces.push_back(moved(outputs_of(part, inputs, expected, here), c10::kCPU));
        continue;
      }
      const Tensors outputs = forward_of(part, inputs, here);
      links.outputs->finish();  // so that at most one piece waits for its receiver
      links.outputs->send(parallel::outgoing(part, outputs));
    }
  }
  for (const auto& [part, links] : parts)
    if (links.outputs) links.outputs->finish();
  return {batch, pieces.empty() ? Tensors() : concatenated(pieces)};
}

}  // namespace

EvaluatedModel whole(std::shared_ptr<Model> model, const collective::Communicator& group) {
  return {.model = model,
          .parts = {{parallel::ModelPart(model)}},
          .pipelines = group.world_size(),
          .pipeline = group.rank()};
}

Evaluation evaluate(const EvaluatedModel& of, Objective& objective, const Scorecard& scorecard,
                    std::shared_ptr<const Dataset> dataset, collective::Communicator& group,
                    int64_t at_once) {
  const MemoryScope scope(MemoryUse::activations);
  torch::NoGradGuard no_grad;
  InEvaluation mode(*of.model);
  const Fields fields = dataset->fields();
  const std::vector<Field> expected = objective.outputs();
  const int64_t size = dataset->size();
  data::Loader loader(std::move(dataset), {.batch = std::min(kEvaluationBatch, size),
                                           .order = data::SampleOrder::sequential,
                                           .last = data::LastBatch::keep});
  const bool is_first = of.parts.front().part.is_first(), is_last = of.parts.back().part.is_last();
  Results results(scorecard, loader.batches_per_epoch());
  const Range mine = slice(loader.batches_per_epoch(), of.pipelines, of.pipeline);
  if (!mine.empty()) loader.seek(0, mine.begin);
  for (int64_t i = mine.begin; i < mine.end; ++i) {
    group.check();
    Batch on_host;
    if (is_first || is_last) {
      const data::LoadedBatch& loaded = loader.next();
      on_host = to_tensors(loaded, fields, {0, loaded.whole}, c10::kCPU);
    }
    const int64_t samples = std::min(kEvaluationBatch, size - i * kEvaluationBatch);
    torch::manual_seed(RandomStream(Purpose::evaluation, i).next());
    const CallPlace place = {"evaluation batch", i, samples};
    const auto [batch, outputs] =
        is_first && is_last && of.parts.size() == 1
            ? outputs_by_pieces(of.parts.front().part, expected, on_host, place, at_once)
            : outputs_by_stages(of.parts, expected, on_host, place, at_once);
    if (!is_last) continue;
    const Loss loss = call_user_code("the objective's loss()", place,
                                     [&] { return objective.loss(outputs, batch); });
    call_user_code("the objective's measure()", place,
                   [&] { scorecard.score(objective, outputs, batch, loss, results.slot(i)); });
    results.added();
  }
  mode.leave();
  return results.of_all(group);
}

}  // namespace lockstep::train
