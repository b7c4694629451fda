// A product of matrices by tiles: a *target* tile is the sum of products of a row's and a column's
// tiles. Tiles of two *slots* are copied to the device in turns: while one slot's tiles are
// multiplied, the other slot's are copied. Target tiles are in two buffers in turns, too: one is
// copied to the host while the next one is computed. An event before each use of a buffer makes it
// wait for the use before.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <future>
#include <optional>
#include <utility>

#include "matpow/checks.h"
#include "matpow/program.h"

namespace lockstep::matpow {
namespace {

struct TileSlot {
  at::Tensor left, right;
  Lane::Mark used;
};

struct TargetSlot {
  at::Tensor values;
  Lane::Mark stored;
};

struct TiledPower {
  std::string name;
  at::Tensor values;  ///< in the host's memory
  Lane::Mark stored;
  Checks checks;
};

// A tile's place in a matrix.
struct TilePlace {
  int64_t row, column;
};

class TiledOnDevice {
 public:
  TiledOnDevice(DeviceLanes& lanes, int64_t size, const Tiles& tiles)
      : lanes_(lanes), size_(size), tiles_(tiles) {
    lanes_.host.run(Phase::allocate, "allocate", [&] {
      const auto make = [&] {
        return at::empty({tiles.edge * tiles.edge}, at::device(lanes.device).dtype(at::kFloat));
      };
      for (TileSlot& slot : slots_) slot = {make(), make(), nullptr};
      for (TargetSlot& target : targets_) target = {make(), nullptr};
    });
  }

  // `spare` and `other` are in the host's memory, like `base`.
  TiledPower power_of(char matrix, const at::Tensor& base, const at::Tensor& spare,
                      const at::Tensor& other, const std::vector<Product>& chain) {
    Checks checks(lanes_.device, static_cast<int64_t>(chain.size()));
    const at::Tensor power =
        raise(matrix, chain, base, spare, other,
              [&](const at::Tensor& left, const at::Tensor& right, const at::Tensor& target,
                  const std::string& name) {
                checks.begin(name);
                for_each_tile(
                    [&](TilePlace place) { multiply(left, right, target, place, name, checks); });
                lanes_.copy_in.wait(stored_);  // the next product reads the target
              });
    const int64_t exponent = chain.empty() ? 1 : chain.back().after();
    return {name_of_power(matrix, exponent), power, stored_, std::move(checks)};
  }

  Checks add(const TiledPower& one, const TiledPower& other, const at::Tensor& target) {
    Checks checks(lanes_.device, 1);
    const std::string name = one.name + " + " + other.name;
    checks.begin(name);
    lanes_.copy_in.wait(one.stored);
    lanes_.copy_in.wait(other.stored);
    for_each_tile([&](TilePlace place) {
      const at::Tensor on_host = part(target, place);
      TargetSlot& sum = next_target();
      at::Tensor values = shaped(sum.values, on_host);
      store(on_host, sum, values, name,
            with_tiles(part(one.values, place), part(other.values, place), name,
                       [&](const at::Tensor& left, const at::Tensor& right) {
                         at::add_out(values, left, right);
                         checks.add(values);
                       }));
    });
    return checks;
  }

  void free() {
    lanes_.host.run(Phase::free, "free", [&] {
      slots_ = {};
      targets_ = {};
    });
  }

 private:
  template <typename Action>
  void for_each_tile(const Action& action) const {
    for (int64_t row = 0; row < tiles_.a_side; ++row)
      for (int64_t column = 0; column < tiles_.a_side; ++column) action(TilePlace{row, column});
  }

  // The tile of a matrix in the host's memory.
  at::Tensor part(const at::Tensor& matrix, TilePlace place) const {
    const auto slice = [&](const at::Tensor& of, int64_t dimension, int64_t number) {
      return of.slice(dimension, number * tiles_.edge, std::min((number + 1) * tiles_.edge, size_));
    };
    return slice(slice(matrix, 0, place.row), 1, place.column);
  }

  // A buffer's begin, in the shape of a tile.
  static at::Tensor shaped(const at::Tensor& buffer, const at::Tensor& tile) {
    return buffer.slice(0, 0, tile.numel()).view(tile.sizes());
  }

  // Copies two tiles to the device and computes with them. Returns the end of that.
  template <typename Compute>
  Lane::Mark with_tiles(const at::Tensor& left_on_host, const at::Tensor& right_on_host,
                        const std::string& name, const Compute& compute) {
    TileSlot& slot = slots_[slots_used_++ % slots_.size()];
    const at::Tensor left = shaped(slot.left, left_on_host);
    const at::Tensor right = shaped(slot.right, right_on_host);
    lanes_.copy_in.wait(slot.used);
    const Lane::Mark loaded = lanes_.copy_in.run(Phase::copy_in, name, [&] {
      left.copy_(left_on_host, /*non_blocking=*/true);
      right.copy_(right_on_host, /*non_blocking=*/true);
    });
    lanes_.compute.wait(loaded);
    slot.used = lanes_.compute.run(Phase::compute, name, [&] { compute(left, right); });
    return slot.used;
  }

  // A buffer for a target tile, when what was in it is stored.
  TargetSlot& next_target() {
    TargetSlot& target = targets_[targets_used_++ % targets_.size()];
    lanes_.compute.wait(target.stored);
    return target;
  }

  void store(const at::Tensor& on_host, TargetSlot& target, const at::Tensor& values,
             const std::string& name, const Lane::Mark& computed) {
    lanes_.copy_out.wait(computed);
    stored_ = lanes_.copy_out.run(Phase::copy_out, name,
                                  [&] { on_host.copy_(values, /*non_blocking=*/true); });
    target.stored = stored_;
  }

  void multiply(const at::Tensor& left, const at::Tensor& right, const at::Tensor& target,
                TilePlace place, const std::string& name, Checks& checks) {
    const at::Tensor on_host = part(target, place);
    TargetSlot& sum = next_target();
    at::Tensor values = shaped(sum.values, on_host);
    Lane::Mark computed;
    for (int64_t k = 0; k < tiles_.a_side; ++k)
      computed = with_tiles(part(left, {place.row, k}), part(right, {k, place.column}), name,
                            [&](const at::Tensor& from_row, const at::Tensor& from_column) {
                              if (k == 0)
                                at::mm_out(values, from_row, from_column);
                              else
                                values.addmm_(from_row, from_column);
                              if (k == tiles_.a_side - 1) checks.add(values);
                            });
    store(on_host, sum, values, name, computed);
  }

  DeviceLanes& lanes_;
  const int64_t size_;
  const Tiles tiles_;
  std::array<TileSlot, 2> slots_;
  std::array<TargetSlot, 2> targets_;
  size_t slots_used_ = 0, targets_used_ = 0;
  Lane::Mark stored_;  ///< the last target tile
};

}  // namespace

void run_tiled(const Lanes& lanes, const Matrices& matrices, const std::vector<Product>& chain,
               const Tiles& tiles) {
  const int64_t size = matrices.a.size(0);
  const auto& spares = matrices.spares;
  TiledOnDevice first(*lanes[0], size, tiles);
  std::optional<TiledOnDevice> second;
  if (lanes.size() == 2) second.emplace(*lanes[1], size, tiles);
  const auto power_b = [&] {
    return (second ? *second : first).power_of('B', matrices.b, spares[2], spares[3], chain);
  };
  // Or, on one device, when it is asked for.
  auto b = std::async(second ? std::launch::async : std::launch::deferred, power_b);
  const TiledPower a = first.power_of('A', matrices.a, spares[0], spares[1], chain);
  const TiledPower of_b = b.get();
  const Checks sum = first.add(a, of_b, matrices.sum);
  for (const DeviceLanes* each : lanes) each->synchronize();
  require_finite({a.checks, of_b.checks, sum});
  if (second) second->free();
  first.free();
}

}  // namespace lockstep::matpow
