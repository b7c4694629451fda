#include "pipeline/in_groups.h"

#include <algorithm>

namespace lockstep::pipeline {

std::vector<Action> in_groups(int micro_batches, int devices) {
  using Kind = Action::Kind;
  std::vector<Action> order;
  for (int first = 0; first < micro_batches; first += devices)
    for (const Kind kind : {Kind::scatter, Kind::forward, Kind::backward, Kind::collect})
      for (int number = first; number < std::min(first + devices, micro_batches); ++number)
        order.push_back({kind, 0, number});
  return order;
}

}  // namespace lockstep::pipeline
