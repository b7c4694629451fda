// A fold goes block by block: a block of every term is folded along the tree before the next block
// is read, so that partial sums never leave the first-level cache. The root of a block is written
// only when all its terms have been read, which is why a result may be one of the terms.
#include "collective/fold/fold.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "collective/plan/shards.h"

namespace lockstep::collective {
namespace {

constexpr size_t kBlock = 4096;

// Terms first .. last-1, which together are `shards` shards.
struct TreePart {
  size_t first;
  size_t last;
  int64_t shards;

  bool is_leaf() const { return last - first == 1; }
};

struct Split {
  TreePart left;
  TreePart right;
};

struct Block {
  alignas(64) std::byte data[kBlock];
};

class Folder {
 public:
  explicit Folder(const TreeFold& fold)
      : fold_(fold), kernels_(kernels(fold.type, fold.operation, fold.instructions)) {
    if (!fold.widths.empty() && fold.widths.size() != fold.terms.size())
      throw Error(
          fmt::format("[fold_tree] {} widths for {} terms", fold.widths.size(), fold.terms.size()));
  }

  TreePart root() const {
    const auto terms = static_cast<int64_t>(fold_.terms.size());
    const auto& widths = fold_.widths;
    return {0, fold_.terms.size(),
            widths.empty() ? terms : std::accumulate(widths.begin(), widths.end(), int64_t{0})};
  }

  Split split(const TreePart& part) const {
    const int64_t on_the_left = middle(0, part.shards);
    size_t at = part.first;
    int64_t passed = 0;
    while (at < part.last && passed < on_the_left) passed += width(at++);
    if (passed != on_the_left || at == part.last)
      throw Error(fmt::format("[fold_tree] terms {} to {} are not nodes of the tree over shards",
                              part.first, part.last - 1));
    return {{part.first, at, on_the_left}, {at, part.last, part.shards - on_the_left}};
  }

  // Whether the terms are added as if they were one shard each.
  bool is_plain_tree() const {
    return fold_.widths.empty() ||
           split(root()).left.last == static_cast<size_t>(middle(0, root().last));
  }

  void block(size_t begin, size_t bytes) const {
    const Split halves = split(root());
    Block left;
    Block right;
    std::byte* result = fold_.results[0] + begin;
    kernels_.join(result, fold(halves.left, begin, bytes, left),
                  fold(halves.right, begin, bytes, right), bytes);
    finish(begin, bytes);
  }

  void copy_only_term(size_t begin, size_t bytes) const {
    std::memmove(fold_.results[0] + begin, fold_.terms[0] + begin, bytes);
    finish(begin, bytes);
  }

 private:
  int64_t width(size_t term) const { return fold_.widths.empty() ? 1 : fold_.widths[term]; }

  // Where the part's value is: in the term itself, or in the given room.
  const std::byte* fold(const TreePart& part, size_t begin, size_t bytes, Block& room) const {
    if (part.is_leaf()) return fold_.terms[part.first] + begin;
    const Split halves = split(part);
    Block right;
    kernels_.join(room.data, fold(halves.left, begin, bytes, room),
                  fold(halves.right, begin, bytes, right), bytes);
    return room.data;
  }

  void finish(size_t begin, size_t bytes) const {
    std::byte* result = fold_.results[0] + begin;
    if (fold_.divide_by != 1) kernels_.divide(result, bytes, fold_.divide_by);
    for (std::byte* other : fold_.results.subspan(1))
      if (other + begin != result) std::memcpy(other + begin, result, bytes);
  }

  const TreeFold& fold_;
  FoldKernels kernels_;
};

// The loop that reads and writes the vectors in one pass, where there is one.
SumF32 find_one_pass(const TreeFold& fold, const Folder& folder) {
  const bool sums = fold.operation == Operation::sum || fold.operation == Operation::mean;
  if (fold.type != Type::f32 || !sums) return nullptr;
  const SumF32 one_pass = sum_f32(fold.terms.size(), fold.results.size(), fold.instructions);
  return one_pass != nullptr && folder.is_plain_tree() ? one_pass : nullptr;
}

class HostArithmetic final : public transport::Arithmetic {
 public:
  void combine(std::byte* into, const std::byte* from, size_t bytes, Type type,
               Operation operation) override {
    combiner(type, operation)(into, from, bytes);
  }
  void divide(std::byte* data, size_t bytes, Type type, int64_t n) override {
    divider(type)(data, bytes, n);
  }
  void copy(std::byte* into, const std::byte* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(into, from, bytes);
  }
};

}  // namespace

transport::Combine combiner(Type type, Operation operation, Instructions instructions) {
  return kernels(type, operation, instructions).combine;
}

Divide divider(Type type, Instructions instructions) {
  return kernels(type, Operation::sum, instructions).divide;
}

transport::Arithmetic& host_arithmetic() {
  static HostArithmetic arithmetic;
  return arithmetic;
}

void fold_tree(const TreeFold& fold) {
  if (fold.results.empty()) return;
  if (fold.terms.empty()) throw Error("[fold_tree] nothing to fold");
  const Folder folder(fold);
  if (const SumF32 one_pass = find_one_pass(fold, folder)) {
    one_pass(fold.terms.data(), fold.results.data(), fold.bytes, fold.divide_by);
    return;
  }
  for (size_t begin = 0; begin < fold.bytes; begin += kBlock) {
    const size_t bytes = std::min(kBlock, fold.bytes - begin);
    if (fold.terms.size() == 1)
      folder.copy_only_term(begin, bytes);
    else
      folder.block(begin, bytes);
  }
}

}  // namespace lockstep::collective
