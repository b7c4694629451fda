#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "collective/communicator.h"
#include "device/memory_account.h"

namespace lockstep::parallel {

/// Elements of the memory of `bytes`, from byte `begin` on: with the sizes of `like`, and its
/// strides if they leave no gaps. Unlike a view by LibTorch, it does not share its version with
/// others.
at::Tensor view_in(const at::Tensor& bytes, int64_t begin, const at::Tensor& like,
                   at::ScalarType type);

/// Contiguous memory on a model's device for what workers exchange: some *slots* of equal size,
/// each for the gradients of one or more shards, or one for the parameters. Workers exchange it in
/// host memory, unless their transport carries the device's: a slot's bytes are copied to the host,
/// on a stream of their own while the device goes on, and back.
class ExchangeMemory {
 public:
  /// Zeros, which are counted as `use`.
  ExchangeMemory(c10::Device device, MemoryUse use, int64_t bytes_per_slot, int slots,
                 collective::Communicator& group);

  /// A part of a slot, in bytes.
  struct Part {
    int slot = 0;
    int64_t begin = 0;
    int64_t end = 0;
  };

  /// See `view_in`.
  at::Tensor view(int slot, int64_t begin, const at::Tensor& like, at::ScalarType type) const {
    return view_in(all_, slot * bytes_per_slot_ + begin, like, type);
  }
  /// The part's elements as a vector.
  at::Tensor vector(const Part& part, at::ScalarType type) const;

  /// Adds `from` to `into`.
  void add(const Part& into, const Part& from, Type type) const;

  /// Parts where a collective can use them: in the device's memory if the transport carries that,
  /// else on their way to host memory.
  struct Staged {
    std::vector<std::byte*> data;  ///< of each
    transport::Place place = transport::Place::host;
    std::function<void()> wait = nullptr;  ///< until they are there; nullptr: they are
  };
  /// The parts as they are when the device's current stream has computed what it was asked for. The
  /// host does not wait for that.
  Staged stage(const std::vector<Part>& parts) const;
  /// After a collective has changed them: what the current stream computes from now on sees these
  /// bytes in the part.
  void take_back(const Part& part) const;
  /// What keeps the staged memory alive.
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  bool on_host() const { return all_.device().is_cpu(); }
  int64_t begin_of(const Part& part) const { return part.slot * bytes_per_slot_ + part.begin; }
  static at::Tensor bytes_of(const at::Tensor& all, int64_t begin, const Part& part);

  const int64_t bytes_per_slot_;
  collective::Communicator& group_;
  const bool is_carried_;              ///< the device's memory, by the transport
  transport::Memory host_;             ///< the slots themselves, or where they are copied to
  const MemoryCharge charge_;          ///< for slots in the transport's memory
  at::Tensor all_;                     ///< as bytes, slot after slot
  at::Tensor on_host_;                 ///< the bytes of `host_`
  std::shared_ptr<const void> owner_;  ///< of `host_` and `all_`
  std::optional<c10::Stream> copies_;  ///< where slots are copied; not for the host's own memory
};

}  // namespace lockstep::parallel
