#include <ATen/ATen.h>

#include <future>
#include <initializer_list>
#include <optional>
#include <utility>

#include "matpow/checks.h"
#include "matpow/program.h"

namespace lockstep::matpow {
namespace {

struct LoadedMatrix {
  char name;
  at::Tensor values;
  Lane::Mark loaded;
};

struct WholePower {
  std::string name;
  at::Tensor values;
  Checks checks;
};

// One device's buffers, and what it computes in them.
class WholeOnDevice {
 public:
  WholeOnDevice(DeviceLanes& lanes, int64_t size, int64_t buffers) : lanes_(lanes) {
    lanes_.host.run(Phase::allocate, "allocate", [&] {
      const auto options = at::device(lanes_.device).dtype(at::kFloat);
      for (int64_t i = 0; i < buffers; ++i) unused_.push_back(at::empty({size, size}, options));
    });
  }

  LoadedMatrix load(char name, const at::Tensor& on_host) {
    const at::Tensor buffer = take_buffer();
    const auto loaded = lanes_.copy_in.run(Phase::copy_in, std::string(1, name),
                                           [&] { buffer.copy_(on_host, /*non_blocking=*/true); });
    return {name, buffer, loaded};
  }

  WholePower power_of(LoadedMatrix matrix, const std::vector<Product>& chain) {
    Checks checks(lanes_.device, static_cast<int64_t>(chain.size()));
    lanes_.compute.wait(matrix.loaded);
    computed_ = matrix.loaded;
    const at::Tensor spare = take_buffer(), other = take_buffer();
    const at::Tensor power = raise(matrix.name, chain, matrix.values, spare, other,
                                   [&](const at::Tensor& left, const at::Tensor& right,
                                       at::Tensor target, const std::string& name) {
                                     computed_ = lanes_.compute.run(Phase::compute, name, [&] {
                                       at::mm_out(target, left, right);
                                       checks.begin(name);
                                       checks.add(target);
                                     });
                                   });
    for (const at::Tensor& each : {matrix.values, spare, other})
      if (!each.is_same(power)) unused_.push_back(each);
    const int64_t exponent = chain.empty() ? 1 : chain.back().after();
    return {name_of_power(matrix.name, exponent), power, std::move(checks)};
  }

  // A power that another device has computed.
  at::Tensor receive(const WholeOnDevice& from, const WholePower& power) {
    const at::Tensor buffer = take_buffer();
    lanes_.copy_in.wait(computed_);
    from.lanes_.copy_out.wait(from.computed_);
    const auto copied =
        from.lanes_.copy_out.run(Phase::copy_out, power.name + " to " + lanes_.host.process(), [&] {
          const c10::StreamGuard here(lanes_.copy_in.stream());
          buffer.copy_(power.values, /*non_blocking=*/true);
        });
    lanes_.compute.wait(copied);
    return buffer;
  }

  // Adds another one to the power, and copies the sum to the host.
  Checks add(const WholePower& power, const at::Tensor& other, const std::string& other_name,
             const at::Tensor& on_host) {
    const std::string name = power.name + " + " + other_name;
    Checks checks(lanes_.device, 1);
    computed_ = lanes_.compute.run(Phase::compute, name, [&] {
      power.values.add_(other);
      checks.begin(name);
      checks.add(power.values);
    });
    lanes_.copy_out.wait(computed_);
    lanes_.copy_out.run(Phase::copy_out, name,
                        [&] { on_host.copy_(power.values, /*non_blocking=*/true); });
    return checks;
  }

  void free(std::initializer_list<WholePower*> powers) {
    lanes_.host.run(Phase::free, "free", [&] {
      unused_.clear();
      for (WholePower* power : powers) power->values.reset();
    });
  }

 private:
  at::Tensor take_buffer() {
    at::Tensor buffer = std::move(unused_.back());
    unused_.pop_back();
    return buffer;
  }

  DeviceLanes& lanes_;
  std::vector<at::Tensor> unused_;
  Lane::Mark computed_;  ///< the last power
};

void run_on_one(DeviceLanes& lanes, const Matrices& matrices, const std::vector<Product>& chain) {
  WholeOnDevice device(lanes, matrices.a.size(0), matrices_on_device(1));
  LoadedMatrix a = device.load('A', matrices.a), b = device.load('B', matrices.b);
  WholePower power_a = device.power_of(std::move(a), chain);
  WholePower power_b = device.power_of(std::move(b), chain);
  const Checks sum = device.add(power_a, power_b.values, power_b.name, matrices.sum);
  lanes.synchronize();
  require_finite({power_a.checks, power_b.checks, sum});
  device.free({&power_a, &power_b});
}

void run_on_two(DeviceLanes& first_lanes, DeviceLanes& second_lanes, const Matrices& matrices,
                const std::vector<Product>& chain) {
  const int64_t size = matrices.a.size(0), buffers = matrices_on_device(2);
  std::optional<WholeOnDevice> second;
  auto b = std::async(std::launch::async, [&] {
    second.emplace(second_lanes, size, buffers);
    return second->power_of(second->load('B', matrices.b), chain);
  });
  WholeOnDevice first(first_lanes, size, buffers);
  WholePower power_a = first.power_of(first.load('A', matrices.a), chain);
  WholePower power_b = b.get();
  at::Tensor received = first.receive(*second, power_b);
  const Checks sum = first.add(power_a, received, power_b.name, matrices.sum);
  received.reset();
  first_lanes.synchronize();
  second_lanes.synchronize();
  require_finite({power_a.checks, power_b.checks, sum});
  second->free({&power_b});
  first.free({&power_a});
}

}  // namespace

void run_whole(const Lanes& lanes, const Matrices& matrices, const std::vector<Product>& chain) {
  if (lanes.size() == 1)
    run_on_one(*lanes[0], matrices, chain);
  else
    run_on_two(*lanes[0], *lanes[1], matrices, chain);
}

}  // namespace lockstep::matpow
