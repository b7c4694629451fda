#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/shared_map.h"
#include "virtual_devices/memory.h"

namespace lockstep::virtual_devices {

/// A device tensor among an operator's arguments, and the CPU tensor over its bytes that stands in
/// for it.
struct Pair {
  at::Tensor on_device;
  at::Tensor alias;
  bool written = false;
};
using Pairs = c10::SmallVector<Pair, 4>;

/// One result of an operator.
struct ExpectedTensor {
  enum class Kind {
    undefined,
    argument,  ///< the argument's own tensor
    view,      ///< of an argument's storage
    fresh,     ///< in memory of its own
  };
  Kind kind = Kind::undefined;
  size_t number = 0;  ///< of the pair, or of the fresh storage
  Shape shape = {};   ///< of a view: its offset counts from that of the argument

  bool operator==(const ExpectedTensor&) const = default;
};

/// What an operator will return for arguments of certain shapes.
struct ExpectedResults {
  struct Result {
    bool is_list = false;
    std::vector<ExpectedTensor> tensors;  ///< one, unless it is a list

    bool operator==(const Result&) const = default;
  };
  std::vector<Result> results;
  std::vector<size_t> fresh;  ///< bytes of each fresh storage
  int64_t workspace = 0;      ///< bytes that it needs besides while it computes

  int64_t fresh_bytes() const;
};

/// The results of operators, learned from earlier calls with arguments of the same shapes, so that
/// a call can return before anything is computed. May be used by several threads.
class LearnedResults {
 public:
  static LearnedResults& get();

  /// A text that is equal for calls whose results have equal shapes. Empty if they may differ, or
  /// if results are not tensors: then they are never learned.
  std::string key_of(const c10::OperatorHandle& op, const c10::Stack& arguments, size_t first,
                     const Pairs& pairs);

  std::shared_ptr<const ExpectedResults> find(const std::string& key) { return known_.find(key); }

  /// After a call has been computed: its results are the last values of the stack. Learns nothing
  /// if an argument was resized.
  void learn(const std::string& key, const c10::OperatorHandle& op, const c10::Stack& stack,
             const Pairs& pairs, int64_t most_bytes);

  /// The operator's results depend on more than shapes: from now on they are not learned.
  void never(const c10::OperatorHandle& op);

 private:
  static constexpr size_t kMost = 100'000;  ///< different calls
  SharedMap<ExpectedResults> known_{kMost};
  SharedMap<std::monostate> never_{kMost};  ///< names of operators
};

/// What the last values of the stack are; nothing if they cannot be described.
std::optional<ExpectedResults> describe_results(const c10::OperatorHandle& op,
                                                const c10::Stack& stack, const Pairs& pairs);

/// Whether an operator's results tell the host values of its arguments: single values, or sizes.
bool tells_the_host_values(const c10::OperatorHandle& op);

/// Whether an operator only makes views of its arguments, and computes nothing.
bool only_makes_views(const c10::FunctionSchema& schema);

}  // namespace lockstep::virtual_devices
