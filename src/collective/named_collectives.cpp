// The collectives of a communicator by their names: each is one call of `run`.
#include <array>
#include <utility>

#include "collective/communicator.h"

namespace lockstep::collective {

void Communicator::broadcast(Buffer buffer, int root, Cargo cargo) {
  run({.collective = Collective::broadcast, .root = root}, {&buffer, 1}, cargo);
}

void Communicator::reduce(Buffer buffer, int root, Operation operation) {
  run({.collective = Collective::reduce, .operation = operation, .root = root}, {&buffer, 1});
}

void Communicator::all_gather(Buffer buffer, Cargo cargo) {
  run({.collective = Collective::all_gather}, {&buffer, 1}, cargo);
}

Pending Communicator::all_gather_async(Buffer buffer, Cargo cargo,
                                       std::shared_ptr<const void> owner,
                                       std::function<void()> prepare) {
  return start({.collective = Collective::all_gather}, {&buffer, 1}, std::move(owner), cargo,
               std::move(prepare), awaited_by_);
}

void Communicator::reduce_scatter(Buffer buffer, Operation operation) {
  run({.collective = Collective::reduce_scatter, .operation = operation}, {&buffer, 1});
}

void Communicator::gather(Buffer buffer, int root) {
  run({.collective = Collective::gather, .root = root}, {&buffer, 1});
}

void Communicator::scatter(Buffer buffer, int root) {
  run({.collective = Collective::scatter, .root = root}, {&buffer, 1});
}

void Communicator::barrier() {
  alignas(64) int32_t token = 0;
  const Buffer buffer{reinterpret_cast<std::byte*>(&token), 1, Type::i32};
  run({.collective = Collective::barrier}, {&buffer, 1});
}

void Communicator::send(Buffer buffer, int to) {
  run({.collective = Collective::send_receive, .root = rank(), .peer = to}, {&buffer, 1});
}

void Communicator::receive(Buffer buffer, int from) {
  run({.collective = Collective::send_receive, .root = from, .peer = rank()}, {&buffer, 1});
}

void Communicator::all_to_all(Buffer from, Buffer into) {
  const std::array<Buffer, 2> both = {from, into};
  run({.collective = Collective::all_to_all}, both);
}

void Communicator::exchange(Buffer outgoing, int to, Buffer incoming, int from) {
  const std::array<Buffer, 2> both = {outgoing, incoming};
  run({.collective = Collective::exchange, .root = from, .peer = to}, both);
}

}  // namespace lockstep::collective
