// NCCL's all-reduce through LibTorch's c10d. Written for LibTorch 1.13 and 2.x, compiled only where
// LibTorch has ProcessGroupNCCL (cmake/nccl.cmake), and not yet run on a GPU.
//
// c10d connects GPUs at a group's first collective, and needs the rendezvous then. So
// `connect_nccl` runs that first one itself.
#include "transport/nccl.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <utility>
#include <vector>

#include "lockstep/error.h"
#include "transport/nccl/meeting_store.h"

namespace lockstep::transport {
namespace {

constexpr double kConnectSeconds = 60;

at::ScalarType scalar_type(Type type) {
  switch (type) {
    case Type::f32:
      return at::kFloat;
    case Type::f64:
      return at::kDouble;
    case Type::f16:
      return at::kHalf;
    case Type::bf16:
      return at::kBFloat16;
    case Type::i32:
      return at::kInt;
    case Type::i64:
      return at::kLong;
  }
  throw BadInput("algorithm engine: NCCL has no such type");
}

c10d::ReduceOp operator_of(Operation operation) {
  if (operation == Operation::min) return c10d::ReduceOp::MIN;
  if (operation == Operation::max) return c10d::ReduceOp::MAX;
  return c10d::ReduceOp::SUM;
}

class NcclEngine final : public Engine {
 public:
  /// `others` are their ranks in the job.
  NcclEngine(c10::intrusive_ptr<c10d::ProcessGroupNCCL> group, at::Device gpu,
             std::vector<int> others)
      : group_(std::move(group)), gpu_(gpu), others_(std::move(others)) {}

  // A group waits for what it has under way, which after a failure may never end.
  ~NcclEngine() override {
    if (failed_) group_.release();
  }

  bool supports(Type /*type*/) const override { return true; }

  void all_reduce(std::byte* data, int64_t count, Type type, Operation operation,
                  Deadline deadline) override {
    if (count == 0) return;
    if (failed_) throw Error("[nccl] an all-reduce before this one failed");
    failed_ = true;  // until it is over
    c10d::AllreduceOptions options;
    options.reduceOp = operator_of(operation);
    try {
      std::vector<at::Tensor> bucket = {
          at::from_blob(data, {count}, at::device(gpu_).dtype(scalar_type(type)))};
      const auto work = group_->allreduce(bucket, options);
      while (!work->isCompleted()) {
        if (deadline.passed())
          throw Timeout(others_,
                        fmt::format("[nccl] NCCL's all-reduce is not over: at least one of "
                                    "the ranks {} did not come",
                                    fmt::join(others_, ", ")));
        std::this_thread::yield();
      }
      if (work->exception()) std::rethrow_exception(work->exception());
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw Error(fmt::format("[nccl] all-reduce of {} {} with the ranks {}: {}", count,
                              name_of(type), fmt::join(others_, ", "), error.what()));
    }
    failed_ = false;
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
  const at::Device gpu_;
  const std::vector<int> others_;
  bool failed_ = false;
};

// The ranks in the job of all but this one. NCCL would wait for one that has no GPU.
std::vector<int> introduce(Rendezvous& rendezvous, int gpu) {
  const bool here = gpu >= 0 && gpu < c10::cuda::device_count();
  const auto all = rendezvous.gather(
      fmt::format("{} {}", rendezvous.job_rank(), here ? "" : fmt::format("no GPU {}", gpu)));
  std::vector<int> others;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string missing = all[i].substr(all[i].find(' ') + 1);
    if (!missing.empty())
      throw BadInput("transport nccl: rank {} sees {}; see CUDA_VISIBLE_DEVICES there",
                     std::stoi(all[i]), missing);
    if (static_cast<int>(i) != rendezvous.rank()) others.push_back(std::stoi(all[i]));
  }
  return others;
}

// The sum of a one from every rank: has NCCL connect them.
void sum_ones(Engine& engine, at::Device gpu, int world) {
  const at::Tensor one = at::ones({1}, at::device(gpu).dtype(at::kFloat));
  engine.all_reduce(static_cast<std::byte*>(one.data_ptr()), 1, Type::f32, Operation::sum,
                    Deadline::in(kConnectSeconds));
  const auto sum = one.item<float>();
  if (sum != static_cast<float>(world))
    throw Error(fmt::format("[nccl] a one from each of {} ranks summed to {}", world, sum));
}

}  // namespace

bool nccl_is_built() {
  return true;
}

std::unique_ptr<Engine> connect_nccl(Rendezvous& rendezvous, int gpu) {
  const std::vector<int> others = introduce(rendezvous, gpu);
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(gpu));
  const auto store = c10::make_intrusive<MeetingStore>(rendezvous);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = std::chrono::hours(24);  // deadlines are ours; c10d's may end the process
  try {
    auto engine = std::make_unique<NcclEngine>(
        c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rendezvous.rank(),
                                                    rendezvous.world_size(), options),
        device, others);
    sum_ones(*engine, device, rendezvous.world_size());
    store->close();
    return engine;
  } catch (const std::exception& error) {
    store->close();
    if (store->trouble()) std::rethrow_exception(store->trouble());
    if (dynamic_cast<const Error*>(&error) != nullptr) throw;
    throw Error(fmt::format("[nccl] GPU {} cannot be connected: {}", gpu, error.what()));
  }
}

}  // namespace lockstep::transport
