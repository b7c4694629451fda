#include "model/in_precision.h"

#include <ATen/autocast_mode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/model_error.h"
#include "lockstep/autocast.h"
#include "lockstep/sequential_model.h"
#include "model/models.h"

namespace lockstep::model {
namespace {

constexpr const char* kFull = "fp32";

c10::DeviceType device_of(const Tensors& tensors) {
  for (const auto& [name, tensor] : tensors)
    if (tensor.defined()) return tensor.device().type();
  return c10::DeviceType::CPU;
}

// A parameter that was converted while no gradients were recorded, as in a teacher's pass, must not
// be used again where they are.
class WithoutCache {
 public:
  WithoutCache() : outer_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~WithoutCache() { at::autocast::set_autocast_cache_enabled(outer_); }
  WithoutCache(const WithoutCache&) = delete;
  WithoutCache& operator=(const WithoutCache&) = delete;

 private:
  const bool outer_;
};

template <typename Forward>
Tensors lowered(const Tensors& inputs, const Forward& forward) {
  const WithoutCache without_cache;
  const Autocast autocast(device_of(inputs), at::kBFloat16);
  try {
    return forward(inputs);
  } catch (const c10::Error& error) {
    throw ModelError(fmt::format(
        "in bf16: {}; LibTorch has not every operator in bf16 on every device: --precision fp32 "
        "does without",
        error.what_without_backtrace()));
  }
}

Tensors in_float32(const Tensors& outputs) {
  std::vector<Tensors::Item> widened;
  for (const auto& [name, tensor] : outputs)
    widened.emplace_back(name, tensor.defined() && tensor.scalar_type() == at::kBFloat16
                                   ? tensor.to(at::kFloat)
                                   : tensor);
  return Tensors(std::move(widened));
}

// Has the parameters, buffers and modules of another model, under the same names.
template <typename Base>
class Sharing : public Base {
 public:
  explicit Sharing(std::shared_ptr<Base> model) : model_(std::move(model)) {
    for (const auto& item : model_->named_parameters(/*recurse=*/false))
      this->register_parameter(item.key(), item.value(), item.value().requires_grad());
    for (const auto& item : model_->named_buffers(/*recurse=*/false))
      this->register_buffer(item.key(), item.value());
    for (const auto& child : model_->named_children())
      this->register_module(child.key(), child.value());
  }

  void to(c10::Device device, bool non_blocking) override {
    Base::to(device, non_blocking);
    model_->to(device, non_blocking);
  }
  void train(bool on) override {
    Base::train(on);
    model_->train(on);
  }
  std::vector<Model::LayerKernel> kernels() const override { return model_->kernels(); }

 protected:
  const std::shared_ptr<Base> model_;
};

class Lowered final : public Sharing<Model> {
 public:
  using Sharing::Sharing;
  Tensors forward(const Tensors& inputs) override {
    return in_float32(lowered(inputs, [&](const Tensors& x) { return model_->forward(x); }));
  }
};

class LoweredSequence final : public Sharing<SequentialModel> {
 public:
  explicit LoweredSequence(const std::shared_ptr<SequentialModel>& model) : Sharing(model) {
    for (const ModelLayer& layer : model_->layers()) {
      const bool is_last = &layer == &model_->layers().back();
      add_layer(layer.name, layer.uses, [forward = layer.forward, is_last](const Tensors& inputs) {
        const Tensors outputs = lowered(inputs, forward);
        return is_last ? in_float32(outputs) : outputs;
      });
    }
  }
};

}  // namespace

std::shared_ptr<Model> in_precision(std::shared_ptr<Model> model, const std::string& precision) {
  if (precision == kFull) return model;
  if (const auto sequence = std::dynamic_pointer_cast<SequentialModel>(model))
    return std::make_shared<LoweredSequence>(sequence);
  return std::make_shared<Lowered>(std::move(model));
}

nn::Kernels kernels_for(const std::string& kernels, const std::string& precision) {
  return precision == kFull ? kernels_named(kernels) : nn::Kernels::torch;
}

}  // namespace lockstep::model
