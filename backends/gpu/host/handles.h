// Owners of the handles of the runtime. Move-only; destructors log and do not throw.
#pragma once

#include "gpu_runtime.h"

#include <cstddef>
#include <memory>
#include <type_traits>

#include "backends/gpu/host/error.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {

/// Destroys a stream, an event, a graph or an executable graph.
struct Destroy {
  template <class Handle>
  void operator()(Handle handle) const noexcept {
    check_in_destructor(runtime::destroy(handle));
  }
};
struct FreePinned {
  void operator()(std::byte* data) const noexcept { check_in_destructor(runtime::free_pinned(data)); }
};

template <class Handle>
using OwnedHandle = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;
using StreamHandle = OwnedHandle<runtime::Stream>;
using EventHandle = OwnedHandle<runtime::Event>;
using GraphHandle = OwnedHandle<runtime::Graph>;
using GraphExecHandle = OwnedHandle<runtime::GraphExec>;
using PinnedMemory = std::unique_ptr<std::byte[], FreePinned>;

/// A stream of the current device that does not wait for the default stream.
[[nodiscard]] inline StreamHandle make_stream() {
  runtime::Stream stream = nullptr;
  check(runtime::create_stream(stream));
  return StreamHandle(stream);
}

[[nodiscard]] inline EventHandle make_event(bool keeps_time) {
  runtime::Event event = nullptr;
  check(runtime::create_event(event, keeps_time));
  return EventHandle(event);
}

[[nodiscard]] inline PinnedMemory make_pinned(size_t bytes) {
  void* data = nullptr;
  check(runtime::allocate_pinned(&data, bytes));
  return PinnedMemory(static_cast<std::byte*>(data));
}

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
