// A message between workers is a *header* and then its tensors, each of them one transfer. The
// header is a row of numbers that says what follows. It is sent in pieces of a fixed length, since
// the receiver must know how long a transfer is. A tensor with several names is sent once.
#include "parallel/stage_link.h"

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "lockstep/error.h"
#include "parallel/distinct_tensors.h"
#include "parallel/packed_tensor.h"

namespace lockstep::parallel {
namespace {

constexpr int64_t kHeaderWords = 128;  ///< of one piece

at::Tensor received(const at::Tensor& tensor, bool requires_grad) {
  return tensor.detach().set_requires_grad(requires_grad);
}

class LocalLink final : public StageLink {
 public:
  explicit LocalLink(c10::Device device) : device_(device) {}

  void send(StageMessage message) override { messages_.push_back(std::move(message)); }

  StageMessage receive() override {
    if (messages_.empty()) throw Error("a stage received a message before it was sent");
    StageMessage message = std::move(messages_.front());
    messages_.pop_front();
    const torch::NoGradGuard no_grad;
    DistinctTensors here(message.tensors);
    for (at::Tensor& tensor : here.tensors)
      tensor = received(tensor.device() == device_ ? tensor : copied(tensor, device_),
                        tensor.requires_grad());
    message.tensors = named(here.names, here.tensors);
    return message;
  }

  void finish() override {}
  void release(int64_t) override {}

 private:
  const c10::Device device_;
  std::deque<StageMessage> messages_;
};

// Writes numbers and texts one after another, and reads them again.
class Header {
 public:
  Header() = default;
  explicit Header(std::vector<int64_t> words) : words_(std::move(words)) {}

  void put(int64_t word) { words_.push_back(word); }
  void put(const std::string& text) {
    put(static_cast<int64_t>(text.size()));
    for (const char letter : text) put(static_cast<int64_t>(letter));
  }
  int64_t number() { return words_.at(next_++); }
  std::string text() {
    std::string text(static_cast<size_t>(number()), ' ');
    for (char& letter : text) letter = static_cast<char>(number());
    return text;
  }
  const std::vector<int64_t>& words() const { return words_; }

 private:
  std::vector<int64_t> words_;
  size_t next_ = 0;
};

Header header_of(const StageMessage& message, const DistinctTensors& distinct,
                 const std::vector<at::Tensor>& elements) {
  Header header;
  header.put(message.notes);
  header.put(message.received);
  header.put(message.generator.defined() ? message.generator.numel() : 0);
  header.put(static_cast<int64_t>(distinct.names.size()));
  for (const auto& [name, tensor] : distinct.names) {
    header.put(name);
    header.put(tensor);
  }
  header.put(static_cast<int64_t>(distinct.tensors.size()));
  for (size_t i = 0; i < distinct.tensors.size(); ++i) {
    const at::Tensor& tensor = distinct.tensors[i];
    header.put(tensor.requires_grad());
    header.put(!message.read_only.empty() && message.read_only[i]);
    header.put(static_cast<int64_t>(tensor.scalar_type()));
    header.put(elements[i].numel());
    header.put(tensor.dim());
    for (const int64_t size : tensor.sizes()) header.put(size);
    for (const int64_t stride : tensor.strides()) header.put(stride);
  }
  return header;
}

class RemoteLink final : public StageLink {
 public:
  RemoteLink(World world, c10::Device device) : world_(std::move(world)), device_(device) {}

  void send(StageMessage message) override {
    forget_received();
    ++sent_;
    const DistinctTensors distinct(message.tensors);
    std::vector<at::Tensor> elements;
    for (const at::Tensor& tensor : distinct.tensors) elements.push_back(packed(tensor));
    send_header(header_of(message, distinct, elements));
    if (message.generator.defined()) start_sending(message.generator);
    for (const at::Tensor& each : elements)
      if (each.numel() > 0) start_sending(each);
  }

  StageMessage receive() override {
    Header header = receive_header();
    StageMessage message{.tensors = {}, .notes = header.number()};
    message.received = header.number();
    if (const int64_t bytes = header.number(); bytes > 0)
      message.generator = receive_tensor(torch::empty({bytes}, torch::kByte));
    std::vector<TensorName> names(static_cast<size_t>(header.number()));
    for (auto& [name, tensor] : names) {
      name = header.text();
      tensor = header.number();
    }
    std::vector<at::Tensor> tensors(static_cast<size_t>(header.number()));
    for (at::Tensor& tensor : tensors) {
      const bool requires_grad = header.number() != 0;
      message.read_only.push_back(header.number() != 0);
      tensor = received(described_tensor(header), requires_grad);
    }
    message.tensors = named(names, tensors);
    return message;
  }

  void finish() override { release(sent_); }

  void release(int64_t messages) override {
    while (!sending_.empty() && sending_.front().message <= messages) wait_for_first();
  }

  std::optional<World> world() const override { return world_; }

 private:
  static constexpr int kSender = 0;
  static constexpr int kReceiver = 1;

  void start_sending(const at::Tensor& tensor) {
    sending_.push_back({sent_, world_.send_async(tensor, kReceiver)});
  }

  // Frees the memory of what has arrived; throws what has failed.
  void forget_received() {
    while (!sending_.empty() && sending_.front().transfer.done()) wait_for_first();
  }

  void wait_for_first() {
    sending_.front().transfer.wait();
    sending_.pop_front();
  }

  void send_header(const Header& header) {
    std::vector<int64_t> words = {static_cast<int64_t>(header.words().size())};
    words.insert(words.end(), header.words().begin(), header.words().end());
    words.resize((words.size() + kHeaderWords - 1) / kHeaderWords * kHeaderWords);
    for (size_t begin = 0; begin < words.size(); begin += kHeaderWords)
      start_sending(torch::tensor(
          std::vector<int64_t>(words.begin() + static_cast<ptrdiff_t>(begin),
                               words.begin() + static_cast<ptrdiff_t>(begin + kHeaderWords)),
          torch::kLong));
  }

  Header receive_header() {
    std::vector<int64_t> words;
    const auto more = [&] {
      const at::Tensor piece = receive_tensor(torch::empty({kHeaderWords}, torch::kLong));
      words.insert(words.end(), piece.data_ptr<int64_t>(),
                   piece.data_ptr<int64_t>() + kHeaderWords);
    };
    more();
    const auto length = static_cast<size_t>(words.front());
    while (words.size() < length + 1) more();
    return Header({words.begin() + 1, words.begin() + 1 + static_cast<ptrdiff_t>(length)});
  }

  at::Tensor receive_tensor(const at::Tensor& into) {
    if (into.numel() > 0) world_.receive(into, kSender);
    return into;
  }

  at::Tensor described_tensor(Header& header) {
    const auto type = static_cast<at::ScalarType>(header.number());
    const int64_t elements = header.number();
    std::vector<int64_t> sizes(static_cast<size_t>(header.number())), strides(sizes.size());
    for (int64_t& size : sizes) size = header.number();
    for (int64_t& stride : strides) stride = header.number();
    const at::Tensor packed =
        receive_tensor(torch::empty({elements}, torch::TensorOptions(device_).dtype(type)));
    return unpacked(packed, sizes, strides);
  }

  World world_;
  const c10::Device device_;
  int64_t sent_ = 0;  ///< messages
  struct Sending {
    int64_t message;  ///< its number, from 1
    Started transfer;
  };
  std::deque<Sending> sending_;
};

}  // namespace

std::unique_ptr<StageLink> make_local_link(c10::Device device) {
  return std::make_unique<LocalLink>(device);
}

std::unique_ptr<StageLink> make_remote_link(World world, c10::Device device) {
  return std::make_unique<RemoteLink>(std::move(world), device);
}

}  // namespace lockstep::parallel
