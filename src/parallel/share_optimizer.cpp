#include "parallel/share_optimizer.h"

#include <torch/serialize.h>

#include <sstream>
#include <string>

namespace lockstep::parallel {

void share_optimizer(torch::optim::Optimizer& optimizer, int root,
                     collective::Communicator& group) {
  std::string bytes;
  if (group.rank() == root) {
    std::ostringstream stream;
    torch::save(optimizer, stream);
    bytes = std::move(stream).str();
  }
  auto size = static_cast<int64_t>(bytes.size());
  group.broadcast({reinterpret_cast<std::byte*>(&size), 1, Type::i64}, root);
  bytes.resize(static_cast<size_t>(size));
  group.broadcast({reinterpret_cast<std::byte*>(bytes.data()), size, Type::u8}, root);
  if (group.rank() == root) return;
  std::istringstream stream(bytes);
  torch::load(optimizer, stream);
}

}  // namespace lockstep::parallel
