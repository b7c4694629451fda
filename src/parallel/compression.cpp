#include <map>

#include "collective/communicator.h"
#include "lockstep/gradient_hook.h"
#include "parallel/tensor_buffer.h"

namespace lockstep {
namespace {

// Sends gradients as a narrower type. The narrow bucket lies where the transport sends it fastest.
class Narrow : public GradientHook {
 public:
  explicit Narrow(Type type) : type_(type) {}

  void reduce(GradientBucket& bucket, World& world) override {
    torch::Tensor& narrow = narrow_[bucket.index];
    if (!narrow.defined() || narrow.numel() != bucket.values.numel()) {
      const int64_t count = bucket.values.numel();
      const auto memory =
          world.communicator().allocate(static_cast<size_t>(count) * bytes_of(type_));
      narrow = torch::from_blob(
          memory.data.get(), {count}, [memory](void*) {}, parallel::scalar_type(type_));
    }
    // Divided before it is narrow: a sum of halves overflows where their mean does not.
    narrow.copy_(bucket.values.div_(world.size()));
    world.all_reduce(narrow, Operation::sum);
    bucket.values.copy_(narrow);
  }

 private:
  const Type type_;
  std::map<size_t, torch::Tensor> narrow_;  ///< by bucket
};

}  // namespace

std::unique_ptr<GradientHook> compress_to_f16() {
  return std::make_unique<Narrow>(Type::f16);
}

std::unique_ptr<GradientHook> compress_to_bf16() {
  return std::make_unique<Narrow>(Type::bf16);
}

}  // namespace lockstep
