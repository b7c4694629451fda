// Times Gloo's all-reduces over TCP on the loopback device, between processes that it starts
// itself, each on a core of its own where there are enough. Gloo's algorithms of both generations
// compete.
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "measure.h"

namespace lockstep::peers {
namespace {

class Gloo final : public Peer {
 public:
  Gloo(const std::string& folder, int rank, int world) : rank_(rank), world_(world) {
    gloo::rendezvous::FileStore store(folder);
    gloo::transport::tcp::attr where;
    where.iface = "lo";
    auto device = gloo::transport::tcp::CreateDevice(where);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, world);
    context->connectFullMesh(store, device);
    context_ = context;
  }

  std::string name() const override { return "gloo"; }
  int rank() const override { return rank_; }
  int world_size() const override { return world_; }

  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

  double largest(double value) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(&value, 1);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::max<double>));
    gloo::allreduce(options);
    return value;
  }

  std::vector<std::string> ways() const override {
    return {"ring", "bcube", "halving_doubling", "ring_chunked"};
  }

  std::function<void()> all_reduce(const std::string& way, float* data, size_t count) override {
    if (way == "halving_doubling")
      return keep(std::make_shared<gloo::AllreduceHalvingDoubling<float>>(
          context_, std::vector<float*>{data}, static_cast<int>(count)));
    if (way == "ring_chunked")
      return keep(std::make_shared<gloo::AllreduceRingChunked<float>>(
          context_, std::vector<float*>{data}, static_cast<int>(count)));
    auto options = std::make_shared<gloo::AllreduceOptions>(context_);
    options->setAlgorithm(way == "ring" ? gloo::AllreduceOptions::Algorithm::RING
                                        : gloo::AllreduceOptions::Algorithm::BCUBE);
    options->setOutput(data, count);
    options->setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    return [options] { gloo::allreduce(*options); };
  }

 private:
  static std::function<void()> keep(std::shared_ptr<gloo::Algorithm> algorithm) {
    return [algorithm] { algorithm->run(); };
  }

  int rank_;
  int world_;
  std::shared_ptr<gloo::Context> context_;
};

void pin(int rank, int world) {
  if (world > sysconf(_SC_NPROCESSORS_ONLN)) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(rank, &set);
  sched_setaffinity(0, sizeof set, &set);
}

int run_rank(const std::string& folder, int rank, const Plan& plan) {
  try {
    pin(rank, plan.workers);
    Gloo peer(folder, rank, plan.workers);
    const int code = measure(peer, plan) == 0 ? 0 : 1;
    peer.barrier();
    return code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo, rank %d: %s\n", rank, error.what());
    return 1;
  }
}

}  // namespace
}  // namespace lockstep::peers

int main(int argc, char** argv) {
  using namespace lockstep::peers;
  const Plan plan = parse(argc, argv);
  std::string folder = (std::filesystem::temp_directory_path() / "gloo-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  for (int rank = 0; rank < plan.workers; ++rank)
    if (fork() == 0) _exit(run_rank(folder, rank, plan));
  int code = 0;
  for (int rank = 0; rank < plan.workers; ++rank) {
    int status = 0;
    wait(&status);
    if (status != 0) code = 1;
  }
  std::filesystem::remove_all(folder);
  return code;
}
