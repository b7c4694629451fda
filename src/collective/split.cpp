// Communicators of some of a communicator's ranks. The ranks exchange texts by all-gather, which is
// all that a transport needs to connect some of them.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/range.h"
#include "collective/communicator.h"

namespace lockstep::collective {
namespace {

// The rendezvous of ranks that have a communicator already.
class CommunicatorRendezvous : public transport::Rendezvous {
 public:
  explicit CommunicatorRendezvous(Communicator& communicator) : communicator_(communicator) {}

  int rank() const override { return communicator_.rank(); }
  int world_size() const override { return communicator_.world_size(); }
  int job_rank() const override {
    return communicator_.transport().peers()[static_cast<size_t>(rank())].rank;
  }
  std::vector<std::string> gather(const std::string& text) override {
    return communicator_.gather_texts(text);
  }

 private:
  Communicator& communicator_;
};

Buffer buffer_of(std::vector<int64_t>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), static_cast<int64_t>(values.size()),
          Type::i64};
}

}  // namespace

std::vector<std::string> Communicator::gather_texts(const std::string& text) {
  const auto ranks = static_cast<size_t>(world_size());
  std::vector<int64_t> lengths(ranks);
  lengths[static_cast<size_t>(rank())] = static_cast<int64_t>(text.size());
  all_gather(buffer_of(lengths));

  const auto longest = static_cast<size_t>(*std::max_element(lengths.begin(), lengths.end()));
  const size_t words = longest / sizeof(int64_t) + 1;
  std::vector<int64_t> texts(words * ranks);
  std::memcpy(&texts[words * static_cast<size_t>(rank())], text.data(), text.size());
  all_gather(buffer_of(texts));

  std::vector<std::string> result;
  for (size_t i = 0; i < ranks; ++i)
    result.emplace_back(reinterpret_cast<const char*>(&texts[words * i]),
                        static_cast<size_t>(lengths[i]));
  return result;
}

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  // A rank that is in no group takes part in the others' rendezvous by connecting with itself.
  const int64_t group_color = color >= 0 ? int64_t{color} : -1 - int64_t{rank()};
  std::vector<std::pair<int, int>> members;  // key, rank
  const std::vector<std::string> requests = gather_texts(fmt::format("{} {}", group_color, key));
  for (int other = 0; other < world_size(); ++other) {
    const std::string& request = requests[static_cast<size_t>(other)];
    const size_t space = request.find(' ');
    if (std::stoll(request) == group_color)
      members.emplace_back(std::stoi(request.substr(space)), other);
  }
  std::sort(members.begin(), members.end());
  std::vector<int> ranks;
  for (const auto& [_, member] : members) ranks.push_back(member);
  CommunicatorRendezvous all(*this);
  transport::GroupRendezvous group(all, ranks);
  auto part = std::make_unique<Communicator>(transport_->connect_again(group), options_);
  if (color < 0) return nullptr;
  part->sent_ = sent_;
  return part;
}

}  // namespace lockstep::collective
