#include "pipeline/in_groups.h"

#include <algorithm>

namespace lockstep::pipeline {

std::vector<Action> in_groups(int micro_batches, int devices) {
  using Kind = Action::Kind;
  std::vector<Action> order;
  for (int first = 0; first < micro_batches; first += devices) {
    const int end = std::min(first + devices, micro_batches);
    for (const Kind kind : {Kind::scatter, Kind::forward, Kind::backward})
      for (int number = first; number < end; ++number) order.push_back({kind, 0, number});
    for (int number = first; number < end; ++number)
      for (const Kind kind : {Kind::collect, Kind::finish}) order.push_back({kind, 0, number});
  }
  return order;
}

}  // namespace lockstep::pipeline
