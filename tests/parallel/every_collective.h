#pragma once

#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "lockstep/world.h"

namespace lockstep {

/// A collective of World, called with this worker's tensor of one row for each worker.
struct NamedCollective {
  std::string name;
  std::function<torch::Tensor(World& world, torch::Tensor rows)> result;  ///< undefined: none
};

inline std::vector<NamedCollective> every_collective() {
  using torch::Tensor;
  return {
      {"all_reduce", [](World& world, Tensor t) { return world.all_reduce(t), t; }},
      {"all_reduce of columns", [](World& world, Tensor t) { return world.all_reduce(t.t()), t; }},
      {"all_reduce_async", [](World& world, Tensor t) { return world.all_reduce_async(t).wait(); }},
      {"mean", [](World& world, Tensor t) { return world.all_reduce(t, Operation::mean), t; }},
      {"broadcast", [](World& world, Tensor t) { return world.broadcast(t, 1), t; }},
      {"reduce", [](World& world, Tensor t) { return world.reduce(t, world.size() - 1), t; }},
      {"all_gather", [](World& world, Tensor t) { return world.all_gather(t); }},
      {"all_gather_async", [](World& world, Tensor t) { return world.all_gather_async(t).wait(); }},
      {"gather", [](World& world, Tensor t) { return world.gather(t, 0); }},
      {"scatter",
       [](World& world, const Tensor& t) {
         Tensor part = torch::zeros_like(t[0]);
         return world.scatter(t, part, 0), part;
       }},
      {"reduce_scatter", [](World& world, Tensor t) { return world.reduce_scatter(t); }},
      {"reduce_scatter_async",
       [](World& world, Tensor t) { return world.reduce_scatter_async(t).wait(); }},
      {"all_to_all", [](World& world, Tensor t) { return world.all_to_all(t); }},
      {"all_gather_uneven",
       [](World& world, const Tensor& t) {
         return torch::cat(world.all_gather_uneven(t.slice(0, world.rank())));
       }},
      {"exchange",
       [](World& world, const Tensor& t) {
         Tensor got = torch::zeros_like(t);
         const int size = world.size();
         world.exchange(t, (world.rank() + 1) % size, got, (world.rank() + size - 1) % size);
         return got;
       }},
      {"send and receive",
       [](World& world, const Tensor& t) {
         if (world.rank() == 0) world.send(t, 1);
         if (world.rank() == 1) world.receive(t, 0);
         return t;
       }},
  };
}

}  // namespace lockstep
