// How LibTorch asks for devices, streams and events. Devices that compute inline have nothing to
// wait for.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <memory>

#include "virtual_devices/devices.h"
#include "virtual_devices/streams.h"

namespace lockstep::virtual_devices {
namespace {

using device::StreamEvent;

thread_local c10::DeviceIndex current = 0;

bool asynchronous() {
  return Devices::get().asynchronous();
}

c10::DeviceIndex number_of(c10::Device device) {
  return device.has_index() ? device.index() : current;
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kType; }
  c10::Device getDevice() const override { return {kType, current}; }
  void setDevice(c10::Device device) const override {
    Devices::get().require(device.index());
    current = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current = device.index(); }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(Devices::get().count_for_libtorch());
  }

  c10::Stream getStream(c10::Device device) const noexcept override {
    return current_stream(number_of(device));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, c10::Device(kType, number_of(device)));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high_priority*/) const override {
    return asynchronous() ? stream_from_pool(number_of(device)) : getDefaultStream(device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    return exchange_current_stream(stream);
  }
  bool queryStream(const c10::Stream& stream) const override {
    return !asynchronous() || streams().query(streams().record(id_of(stream)));
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    if (asynchronous()) streams().synchronize(streams().record(id_of(stream)));
  }
  void synchronizeDevice(c10::DeviceIndex index) const {  // since 2.6
    if (asynchronous()) streams().synchronize_device(index);
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex /*index*/,
              c10::EventFlag /*flag*/) const override {
    if (!asynchronous()) return;
    auto recorded = std::make_unique<StreamEvent>(streams().record(id_of(stream)));
    destroyEvent(*event, stream.device_index());
    *event = recorded.release();
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) streams().wait(id_of(stream), *static_cast<StreamEvent*>(event));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || streams().query(*static_cast<StreamEvent*>(event));
  }
  void synchronizeEvent(void* event) const {  // since 2.4
    if (event != nullptr) streams().synchronize(*static_cast<StreamEvent*>(event));
  }
  void destroyEvent(void* event, c10::DeviceIndex /*index*/) const noexcept override {
    delete static_cast<StreamEvent*>(event);
  }
};

// When the library is loaded, so that `make` notices a backward pass before it.
const c10::impl::DeviceGuardImplRegistrar registrar(kType, new Guard());

}  // namespace

c10::DeviceIndex current_device() {
  return current;
}

}  // namespace lockstep::virtual_devices
