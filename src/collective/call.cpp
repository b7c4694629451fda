#include "collective/call.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::collective {
namespace {

template <typename Names>
std::string name_at(const Names& names, uint64_t index) {
  return index < names.size() ? names[index] : fmt::format("unknown ({})", index);
}

// The algorithm's place in the table, which is the same on all ranks: they run the same program.
uint64_t index_of(Algorithm algorithm) {
  uint64_t index = 0;
  for (const auto& row : algorithms()) {
    if (Algorithm(*row) == algorithm) break;
    ++index;
  }
  return index;
}

}  // namespace

std::string Cargo::text() const {
  switch (kind) {
    case Kind::gradients:
      return fmt::format("gradient bucket {}", bucket);
    case Kind::parameters:
      return fmt::format("the parameters of bucket {}", bucket);
    case Kind::buffers:
      return "the model's buffers";
    case Kind::activations:
      return "activations or their gradients";
    case Kind::other:
      break;
  }
  return {};
}

transport::Label label_of(const Call& call) {
  const auto word = [](auto value, int shift) { return static_cast<uint64_t>(value) << shift; };
  return {{call.number,
           word(call.collective, 0) | word(index_of(call.algorithm) & 0xff, 8) |
               word(call.operation, 16) | word(call.type, 24) | word(call.place, 31) |
               word(call.root & 0xffff, 32) | word(call.peer & 0xffff, 48),
           word(call.count, 0), word(call.shards, 0), 0}};
}

bool same_call(const transport::Label& a, const transport::Label& b) {
  return std::equal(a.words.begin(), a.words.end() - 1, b.words.begin());
}

std::optional<MessageEnds> message_ends(const transport::Label& label) {
  const uint64_t word = label.words[1];
  if (static_cast<Collective>(word & 0xff) != Collective::send_receive) return std::nullopt;
  return MessageEnds{static_cast<int>(word >> 32 & 0xffff), static_cast<int>(word >> 48)};
}

bool is_exchange(const transport::Label& label) {
  return static_cast<Collective>(label.words[1] & 0xff) == Collective::exchange;
}

std::string describe(const transport::Label& label) {
  const auto& words = label.words;
  const auto byte = [&](int shift) { return words[1] >> shift & 0xff; };
  const auto collective = static_cast<Collective>(byte(0));
  const std::string elements =
      name_at(type_names(), byte(24) & 0x7f) + (byte(24) > 0x7f ? " in a device's memory" : "");
  if (is_exchange(label))  // its label is the same for all messages
    return fmt::format("exchange of {}", elements);
  std::string text = fmt::format("{} number {}", name_at(collective_names(), byte(0)), words[0]);
  if (collective == Collective::all_reduce)
    text += fmt::format(" ({})", name_at(algorithms().names(), byte(8)));
  text += fmt::format(" of {} {}", words[2], elements);
  if (reduces(collective))
    text += fmt::format(", {} over {} shards", name_at(operation_names(), byte(16)), words[3]);
  if (collective == Collective::send_receive)
    text += fmt::format(" from {} to {}", words[1] >> 32 & 0xffff, words[1] >> 48);
  else if (has_root(collective))
    text += fmt::format(", root {}", words[1] >> 32 & 0xffff);
  return text + fmt::format(", round {}", words[4] + 1);
}

}  // namespace lockstep::collective
