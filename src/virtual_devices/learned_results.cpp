#include "virtual_devices/learned_results.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

namespace lockstep::virtual_devices {
namespace {

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool is_tensor_type(const c10::Argument& argument) {
  const c10::TypeKind kind = argument.type()->kind();
  if (kind == c10::TypeKind::ListType || kind == c10::TypeKind::OptionalType) {
    const auto element = argument.type()->containedType(0)->kind();
    return element == c10::TypeKind::TensorType;
  }
  return kind == c10::TypeKind::TensorType;
}

// Its numbers decide how many elements there are.
bool makes_a_range(const std::string& op) {
  constexpr std::string_view kSuch[] = {"aten::arange", "aten::range", "aten::linspace",
                                        "aten::logspace"};
  return std::any_of(std::begin(kSuch), std::end(kSuch),
                     [&](std::string_view name) { return op == name; });
}

// Random numbers are drawn in the order of the host's calls, as on a CPU.
bool depends_on_shapes_alone(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const auto& arguments = schema.arguments();
  const bool draws = std::any_of(arguments.begin(), arguments.end(), [](const auto& argument) {
    return argument.name() == "generator";
  });
  return !draws && !makes_a_range(schema.name()) && !op.hasTag(at::Tag::nondeterministic_seeded) &&
         !tells_the_host_values(op);
}

// Writes a key.
class KeyWriter {
 public:
  explicit KeyWriter(const Pairs& pairs) : pairs_(pairs) {}

  template <typename Value>
  void put(const Value& value) {
    key_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  void put_tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) return put('u');
    put('t');
    const auto pair = std::find_if(pairs_.begin(), pairs_.end(),
                                   [&](const Pair& each) { return each.alias.is_same(tensor); });
    put(static_cast<int>(pair - pairs_.begin()));
    put(tensor.scalar_type());
    put(tensor.unsafeGetTensorImpl()->is_wrapped_number());
    put(tensor.is_conj());
    put(tensor.is_neg());
    put(tensor.dim());
    for (const int64_t size : tensor.sizes()) put(size);
    for (const int64_t stride : tensor.strides()) put(stride);
  }

  template <typename List>
  void put_list(const List& list) {
    put(list.size());
    for (const auto& element : list) put(element);
  }

  // Whether there is a way to write it. Numbers that are not sizes are left out unless `all`.
  bool put_value(const c10::IValue& value, bool is_number, bool all) {
    if (value.isTensor()) {
      put_tensor(value.toTensor());
    } else if (value.isTensorList()) {
      const auto tensors = value.toTensorVector();
      put(tensors.size());
      for (const at::Tensor& tensor : tensors) put_tensor(tensor);
    } else if (value.isOptionalTensorList()) {
      const auto tensors = value.toOptionalTensorVector();
      put(tensors.size());
      for (const auto& tensor : tensors) put_tensor(tensor ? *tensor : at::Tensor());
    } else if (value.isNone()) {
      put('n');
    } else if (value.isInt()) {
      put('i');
      if (all || !is_number) put(value.toInt());
    } else if (value.isDouble()) {
      put('d');
      if (all) put(value.toDouble());
    } else if (value.isBool()) {
      put(value.toBool() ? 'y' : 'f');
    } else if (value.isIntList()) {
      put_list(value.toIntVector());
    } else if (value.isDoubleList()) {
      put_list(value.toDoubleVector());
    } else if (value.isBoolList()) {
      for (const bool each : value.toBoolList()) put(each);
    } else if (value.isString()) {
      key_ += value.toStringRef() + '\0';
    } else if (value.isDevice()) {
      put(value.toDevice());
    } else {
      return false;
    }
    return true;
  }

  std::string take() { return std::move(key_); }

 private:
  const Pairs& pairs_;
  std::string key_;
};

bool was_resized(const Pair& pair) {
  return pair.written && (Shape::of(pair.on_device) != Shape::of(pair.alias) ||
                          pair.alias.storage().unsafeGetStorageImpl() !=
                              block_of(pair.on_device).twin.unsafeGetStorageImpl() ||
                          pair.alias.storage().nbytes() != pair.on_device.storage().nbytes());
}

// Describes results; remembers which storages it has seen.
class Describer {
 public:
  explicit Describer(const Pairs& pairs) : pairs_(pairs) {}

  std::optional<ExpectedTensor> tensor(const at::Tensor& result) {
    using Kind = ExpectedTensor::Kind;
    if (!result.defined()) return ExpectedTensor{};
    if (!result.device().is_cpu() || result.layout() != at::kStrided) return std::nullopt;
    ExpectedTensor expected{.shape = Shape::of(result)};
    const auto* const storage = result.storage().unsafeGetStorageImpl();
    for (size_t i = 0; i < pairs_.size(); ++i) {
      if (pairs_[i].alias.storage().unsafeGetStorageImpl() != storage) continue;
      expected.kind = Kind::view;
      expected.number = i;
      expected.shape.offset -= pairs_[i].alias.storage_offset();
      break;
    }
    for (size_t i = 0; i < pairs_.size(); ++i)
      if (pairs_[i].alias.is_same(result)) expected = {Kind::argument, i, {}};
    if (expected.kind != Kind::undefined) return expected;
    const auto seen = std::find(fresh_.begin(), fresh_.end(), storage);
    expected.kind = Kind::fresh;
    expected.number = static_cast<size_t>(seen - fresh_.begin());
    if (seen == fresh_.end()) {
      fresh_.push_back(storage);
      bytes_.push_back(storage->nbytes());
    }
    return expected;
  }

  std::vector<size_t> take_bytes() { return std::move(bytes_); }

 private:
  const Pairs& pairs_;
  std::vector<const c10::StorageImpl*> fresh_;
  std::vector<size_t> bytes_;
};

}  // namespace

int64_t ExpectedResults::fresh_bytes() const {
  return static_cast<int64_t>(std::accumulate(fresh.begin(), fresh.end(), size_t{0}));
}

std::optional<ExpectedResults> describe_results(const c10::OperatorHandle& op,
                                                const c10::Stack& stack, const Pairs& pairs) {
  ExpectedResults described;
  Describer describer(pairs);
  for (size_t i = stack.size() - op.schema().returns().size(); i < stack.size(); ++i) {
    const c10::IValue& value = stack[i];
    ExpectedResults::Result result{.is_list = value.isTensorList()};
    if (!value.isTensor() && !value.isTensorList()) return std::nullopt;
    const std::vector<at::Tensor> tensors =
        result.is_list ? value.toTensorVector() : std::vector<at::Tensor>{value.toTensor()};
    for (const at::Tensor& tensor : tensors) {
      const auto expected = describer.tensor(tensor);
      if (!expected) return std::nullopt;
      result.tensors.push_back(*expected);
    }
    described.results.push_back(std::move(result));
  }
  described.fresh = describer.take_bytes();
  return described;
}

bool tells_the_host_values(const c10::OperatorHandle& op) {
  const auto& returns = op.schema().returns();
  return op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output) ||
         !std::all_of(returns.begin(), returns.end(), is_tensor_type);
}

bool only_makes_views(const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  const auto& returns = schema.returns();
  return !returns.empty() && std::none_of(arguments.begin(), arguments.end(), is_written) &&
         std::all_of(returns.begin(), returns.end(),
                     [](const c10::Argument& result) { return result.alias_info() != nullptr; });
}

LearnedResults& LearnedResults::get() {
  static LearnedResults& learned = *new LearnedResults();
  return learned;
}

std::string LearnedResults::key_of(const c10::OperatorHandle& op, const c10::Stack& arguments,
                                   size_t first, const Pairs& pairs) {
  if (!depends_on_shapes_alone(op)) return {};
  const c10::FunctionSchema& schema = op.schema();
  if (!never_.empty() && never_.find(c10::toString(op.operator_name()))) return {};
  // Numbers such as the ends of a range can decide how many elements there are.
  const bool all = std::all_of(pairs.begin(), pairs.end(), [](const Pair& pair) {
    return pair.written && pair.alias.numel() == 0;
  });
  KeyWriter key(pairs);
  key.put(&schema);
  key.put(c10::get_default_dtype_as_scalartype());
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const bool is_number = schema.arguments()[i].type()->kind() == c10::TypeKind::NumberType;
    if (!key.put_value(arguments[first + i], is_number, all)) return {};
  }
  return key.take();
}

void LearnedResults::learn(const std::string& key, const c10::OperatorHandle& op,
                           const c10::Stack& stack, const Pairs& pairs, int64_t most_bytes) {
  if (std::any_of(pairs.begin(), pairs.end(), was_resized)) return;
  auto described = describe_results(op, stack, pairs);
  if (!described) return;
  described->workspace = std::max<int64_t>(most_bytes - described->fresh_bytes(), 0);
  known_.put(key, std::move(*described));
}

void LearnedResults::never(const c10::OperatorHandle& op) {
  never_.put(c10::toString(op.operator_name()), {});
}

}  // namespace lockstep::virtual_devices
