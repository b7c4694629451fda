// Which parameters and buffers of a model a layer uses. A layer *lists* names of modules,
// parameters and buffers; what else the model has is *foreign* to it. A foreign tensor may be on
// another device, or its memory may have been freed, and its gradient belongs to another part of
// the model. It is found in two ways: LibTorch's operators are observed, which also finds what has
// no gradient or makes an operator fail; and the nodes that the layer adds to the graph are
// searched, since a function of the model's own may use a tensor without calling an operator.
#include "parallel/layer_uses.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::parallel {
namespace {

using torch::autograd::Node;

std::string path_to(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

// Whether `name` is one of `uses`, or inside one of them.
bool is_used(const std::vector<std::string>& uses, const std::string& name) {
  return std::ranges::any_of(uses, [&](const std::string& use) {
    return name == use || (name.starts_with(use) && name[use.size()] == '.');
  });
}

bool contains_used(const std::vector<std::string>& uses, const std::string& name) {
  return std::ranges::any_of(uses,
                             [&](const std::string& use) { return use.starts_with(name + "."); });
}

// A copy of the tree of modules down to those that are used, which are themselves in it, so that
// their parameters have the same names and order.
std::shared_ptr<torch::nn::Module> branches(const torch::nn::Module& tree, const std::string& path,
                                            const std::vector<std::string>& uses) {
  auto copy = std::make_shared<torch::nn::Module>(tree.name());
  for (const auto& item : tree.named_parameters(/*recurse=*/false))
    if (is_used(uses, path_to(path, item.key())))
      copy->register_parameter(item.key(), item.value(), item.value().requires_grad());
  for (const auto& item : tree.named_buffers(/*recurse=*/false))
    if (is_used(uses, path_to(path, item.key()))) copy->register_buffer(item.key(), item.value());
  for (const auto& child : tree.named_children()) {
    const std::string name = path_to(path, child.key());
    if (is_used(uses, name))
      copy->register_module(child.key(), child.value());
    else if (contains_used(uses, name))
      copy->register_module(child.key(), branches(*child.value(), name, uses));
  }
  return copy;
}

void require_known_names(const SequentialModel& model) {
  std::set<std::string> known;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) known.insert(item.key());
  for (const OwnedTensor& tensor : owned_tensors(model)) known.insert(tensor.name);
  for (const ModelLayer& layer : model.layers())
    for (const std::string& use : layer.uses)
      if (!known.contains(use))
        throw BadInput(
            "layer '{}' says that it uses '{}', but the model has no module, parameter or buffer "
            "of that name",
            layer.name, use);
}

}  // namespace

std::vector<OwnedTensor> owned_tensors(const torch::nn::Module& module) {
  std::vector<OwnedTensor> all;
  for (const auto& item : module.named_parameters())
    all.push_back({fmt::format("parameter '{}'", item.key()), item.key(), item.value()});
  for (const auto& item : module.named_buffers())
    all.push_back({fmt::format("buffer '{}'", item.key()), item.key(), item.value()});
  return all;
}

std::shared_ptr<torch::nn::Module> module_of(const SequentialModel& model, Range layers) {
  std::vector<std::string> uses;
  for (int64_t i = layers.begin; i < layers.end; ++i) {
    const std::vector<std::string>& of_layer = model.layers()[static_cast<size_t>(i)].uses;
    uses.insert(uses.end(), of_layer.begin(), of_layer.end());
  }
  return branches(model, "", uses);
}

std::string title_of(const SequentialModel& model, const ModelLayer& layer) {
  if (layer.uses != std::vector{layer.name}) return layer.name;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    if (item.key() != layer.name) continue;
    std::string kind = item.value()->name();
    kind = kind.substr(kind.rfind(':') + 1);
    if (kind.ends_with("Impl")) kind.resize(kind.size() - 4);
    return fmt::format("{} ({})", layer.name, kind);
  }
  return layer.name;
}

void check_uses(const SequentialModel& model) {
  require_known_names(model);
  std::map<const void*, std::string> listed;
  std::set<std::string> names;
  for (const OwnedTensor& each :
       owned_tensors(*module_of(model, {0, std::ssize(model.layers())}))) {
    listed.emplace(each.id(), each.what);
    names.insert(each.name);
  }
  std::set<const void*> named;  // a tensor goes by the first of its names
  for (const OwnedTensor& each : owned_tensors(model))
    if (named.insert(each.id()).second && !names.contains(each.name))
      throw BadInput(
          "{} belongs to none of the model's layers: name it, or its module, in the `uses` of the "
          "layer that uses it{}",
          each.what,
          listed.contains(each.id())
              ? fmt::format(" (there {}, which is the same tensor, has only its other name)",
                            listed.at(each.id()))
              : "");
}

namespace {

// By tensor, what messages call it.
using Names = std::unordered_map<const void*, std::string>;

// While it exists: which of some tensors LibTorch's operators are given on this thread first.
class OperatorWatch {
 public:
  explicit OperatorWatch(const Names& watched)
      : watched_(watched),
        outer_(std::exchange(innermost_, this)),
        handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(&on_operator)
                                               .needsInputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {}
  OperatorWatch(const OperatorWatch&) = delete;
  OperatorWatch& operator=(const OperatorWatch&) = delete;
  ~OperatorWatch() {
    at::removeCallback(handle_);
    innermost_ = outer_;
  }

  /// nullptr: none of them.
  const std::string* found() const { return found_; }

 private:
  static std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& function) {
    for (const c10::IValue& input : function.inputs()) innermost_->look_at(input);
    return nullptr;
  }

  void look_at(const c10::IValue& input) {
    if (found_ != nullptr) return;
    if (input.isList())
      for (const c10::IValue& element : input.toListRef()) look_at(element);
    if (!input.isTensor()) return;
    const auto found = watched_.find(input.toTensor().unsafeGetTensorImpl());
    if (found != watched_.end()) found_ = &found->second;
  }

  static thread_local OperatorWatch* innermost_;  // callbacks of LibTorch have no argument for it

  const Names& watched_;
  OperatorWatch* const outer_;
  const at::CallbackHandle handle_;
  const std::string* found_ = nullptr;
};

thread_local OperatorWatch* OperatorWatch::innermost_ = nullptr;

// Which of some tensors get gradients through the graph that was built since `begin`, a sequence
// number of LibTorch's: nodes before it are those of the layers before.
const std::string* found_in_graph(const Tensors& outputs, uint64_t begin, const Names& watched) {
  std::vector<Node*> waiting;
  for (const auto& [name, output] : outputs)
    if (output.defined() && output.grad_fn()) waiting.push_back(output.grad_fn().get());
  std::unordered_set<const Node*> seen(waiting.begin(), waiting.end());
  while (!waiting.empty()) {
    Node* const node = waiting.back();
    waiting.pop_back();
    if (const auto* const leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      const auto found = watched.find(leaf->variable.unsafeGetTensorImpl());
      if (found != watched.end()) return &found->second;
    } else if (node->sequence_nr() >= begin) {
      for (const torch::autograd::Edge& edge : node->next_edges())
        if (edge.function && seen.insert(edge.function.get()).second)
          waiting.push_back(edge.function.get());
    }
  }
  return nullptr;
}

// A layer's function, which is watched until it has made a pass with and one without gradients.
class WatchedLayer {
 public:
  WatchedLayer(ModelLayer layer, std::string title, Names foreign)
      : layer_(std::move(layer)), title_(std::move(title)), foreign_(std::move(foreign)) {}

  Tensors forward(const Tensors& inputs) {
    try {
      return watched_if_new(inputs);
    } catch (c10::Error& error) {
      error.add_context(fmt::format("in layer {}", title_));
      throw;
    }
  }

 private:
  Tensors watched_if_new(const Tensors& inputs) {
    bool& is_known = torch::GradMode::is_enabled() ? known_with_gradients_ : known_without_;
    if (is_known || foreign_.empty()) return layer_.forward(inputs);
    Names foreign = foreign_;
    for (const auto& [name, tensor] : inputs) foreign.erase(tensor.unsafeGetTensorImpl());
    Tensors outputs = watched_pass(inputs, foreign);
    is_known = true;
    if (known_with_gradients_ && known_without_) foreign_.clear();
    return outputs;
  }

  Tensors watched_pass(const Tensors& inputs, const Names& foreign) const {
    const OperatorWatch operators(foreign);
    const uint64_t begin = at::sequence_number::peek();
    Tensors outputs;
    try {
      outputs = layer_.forward(inputs);
    } catch (...) {  // such as of shapes that do not match, where memory was freed
      refuse(operators.found());
      throw;
    }
    refuse(operators.found());
    refuse(found_in_graph(outputs, begin, foreign));
    return outputs;
  }

  void refuse(const std::string* found) const {
    if (found == nullptr) return;
    throw BadInput(
        "layer '{}' uses {}, which it does not list: name it, or its module, in the layer's `uses` "
        "too (of a torch::nn::Sequential: register it in every module that uses it)",
        layer_.name, *found);
  }

  const ModelLayer layer_;
  const std::string title_;
  Names foreign_;  ///< none any more when nothing is left to watch
  bool known_with_gradients_ = false;
  bool known_without_ = false;
};

}  // namespace

std::vector<ModelLayer> watched_layers(const SequentialModel& model, Range layers) {
  Names all;
  for (const OwnedTensor& each : owned_tensors(model)) all.emplace(each.id(), each.what);
  std::vector<ModelLayer> watched;
  for (int64_t i = layers.begin; i < layers.end; ++i) {
    const ModelLayer& layer = model.layers()[static_cast<size_t>(i)];
    Names foreign = all;
    for (const OwnedTensor& own : owned_tensors(*module_of(model, {i, i + 1})))
      foreign.erase(own.id());
    auto watch = std::make_shared<WatchedLayer>(layer, title_of(model, layer), std::move(foreign));
    watched.push_back({layer.name, layer.uses, [watch = std::move(watch)](const Tensors& inputs) {
                         return watch->forward(inputs);
                       }});
  }
  return watched;
}

}  // namespace lockstep::parallel
