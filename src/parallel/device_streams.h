#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <memory>

namespace lockstep::parallel {

// Streams and events of any device but the CPU, by LibTorch's interface for all kinds of them.

/// This thread's current stream.
c10::Stream current_stream(c10::Device device);

/// A stream beside the default one.
c10::Stream another_stream(c10::Device device);

/// An event that has happened when the stream has computed all that it was asked for.
std::shared_ptr<c10::Event> record_event(c10::Stream stream);

/// Waits until the stream has computed all that it was asked for.
void synchronize(c10::Stream stream);
/// The same for this thread's current stream; nothing on the CPU.
void synchronize(c10::Device device);

/// While this exists, copies between the device and this host memory, from its begin on, can be
/// asynchronous, if the kind of device can do that.
std::shared_ptr<void> pin_memory(const void* begin, c10::Device device);

}  // namespace lockstep::parallel
