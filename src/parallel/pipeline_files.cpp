// The parameters and buffers of a whole model, of which workers have parts.
#include <torch/serialize/archive.h>
#include <torch/types.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/atomic_file.h"
#include "parallel/pipeline_state.h"

namespace lockstep {
namespace {

// This worker's tensors: a text that describes each, and the bytes of all.
struct OwnTensors {
  std::vector<std::string> texts;
  std::vector<std::byte> bytes;

  void add(const std::string& name, const torch::Tensor& tensor) {
    const torch::Tensor there = tensor.detach().to(c10::kCPU).contiguous();
    texts.push_back(
        nlohmann::json({name, static_cast<int>(there.scalar_type()), there.sizes().vec()}).dump());
    const auto* const begin = static_cast<const std::byte*>(there.data_ptr());
    bytes.insert(bytes.end(), begin, begin + there.nbytes());
  }
};

std::map<std::string, torch::Tensor> by_name(const OwnTensors& all) {
  std::map<std::string, torch::Tensor> tensors;
  size_t begin = 0;
  for (const std::string& text : all.texts) {
    const nlohmann::json row = nlohmann::json::parse(text);
    const torch::Tensor tensor = torch::empty(row[2].get<std::vector<int64_t>>(),
                                              static_cast<at::ScalarType>(row[1].get<int>()));
    if (tensor.numel() > 0)
      std::memcpy(tensor.data_ptr(), all.bytes.data() + begin, tensor.nbytes());
    begin += tensor.nbytes();
    tensors.emplace(row[0].get<std::string>(), tensor);
  }
  return tensors;
}

// The tensors that a model has under `items`, with their names there. One that is registered under
// several names may be known by another of them.
template <typename Items>
void add_known(const Items& items, const std::map<std::string, torch::Tensor>& known,
               std::vector<Tensors::Item>& all) {
  for (const auto& item : items) {
    auto found = known.find(item.key());
    for (auto same = items.begin(); found == known.end(); ++same)
      if (same->value().is_same(item.value())) found = known.find(same->key());
    all.emplace_back(item.key(), found->second);
  }
}

// As torch::nn::Module::save does it, with tensors that the module does not have.
void write(const torch::nn::Module& module, const std::string& path, const Tensors& state,
           torch::serialize::OutputArchive& archive) {
  for (const auto& item : module.named_parameters(/*recurse=*/false))
    archive.write(item.key(), state[path + item.key()]);
  for (const auto& item : module.named_buffers(/*recurse=*/false))
    archive.write(item.key(), state[path + item.key()], /*is_buffer=*/true);
  for (const auto& child : module.named_children()) {
    if (!child.value()->is_serializable()) continue;
    torch::serialize::OutputArchive inner(archive.compilation_unit());
    write(*child.value(), path + child.key() + ".", state, inner);
    archive.write(child.key(), inner);
  }
}

}  // namespace

// The workers of the first pipeline send what they have to rank 0.
Tensors Pipeline::State::whole_state() {
  std::vector<Tensors::Item> all;
  fail_stop_->run([&] {
    if (grid_.pipeline() != 0) return;
    OwnTensors tensors;
    for (const auto& part : parts_) {
      for (const auto& item : part->part().module().named_parameters())
        tensors.add(item.key(), item.value());
      for (const auto& item : part->part().module().named_buffers())
        tensors.add(item.key(), item.value());
    }
    tensors.texts = grid_.gathered(std::move(tensors.texts));
    tensors.bytes = grid_.joined_on_first(std::move(tensors.bytes));
    if (world_.rank() != 0) return;
    const std::map<std::string, torch::Tensor> known = by_name(tensors);
    add_known(model_->named_parameters(), known, all);
    add_known(model_->named_buffers(), known, all);
  });
  return Tensors(std::move(all));
}

void Pipeline::State::save_to(const std::string& path) {
  const Tensors state = whole_state();
  fail_stop_->run([&] {
    if (world_.rank() == 0) {
      torch::serialize::OutputArchive archive;
      write(*given_, "", state, archive);
      std::ostringstream stream;
      archive.save_to(stream);
      write_file_atomically(path, std::move(stream).str());
    }
    world_.barrier();
  });
}

}  // namespace lockstep
