#include "backends/gpu/host/backend.h"

#include <string>

#include "backends/gpu/host/buffer.h"
#include "backends/gpu/host/devices.h"
#include "backends/gpu/host/error.h"
#include "backends/gpu/host/event.h"
#include "backends/gpu/host/program.h"
#include "backends/gpu/host/stream.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {
namespace {

bool launches_early(int device) {
  bool early = false;
  check(runtime::launches_early(device, early));
  return early;
}

}  // namespace

RuntimeBackend::RuntimeBackend(int device, bool synchronous)
    : device_(device),
      synchronous_(synchronous),
      capabilities_(device_capabilities(device)),
      kernels_(device),
      ops_(make_op_table(kernels_, device)),
      context_{.ops = ops_,
               .capabilities = capabilities_,
               .fill = kernels_.resolve<gpu::FillParams>("fill"),
               .copy = kernels_.resolve<gpu::CopyParams>("copy"),
               .programmatic_launch = launches_early(device)} {}

Buffer RuntimeBackend::allocate(size_t bytes, MemoryKind kind) {
  RuntimeCommandList::refuse_while_recording("allocating memory");
  return Buffer(std::make_unique<RuntimeBuffer>(device_, bytes, kind, allocated_bytes_));
}

std::unique_ptr<Stream> RuntimeBackend::create_stream() {
  RuntimeCommandList::refuse_while_recording("creating a stream");
  return std::make_unique<RuntimeStream>(device_, context_, synchronous_);
}

std::unique_ptr<Event> RuntimeBackend::create_event() { return std::make_unique<RuntimeEvent>(device_); }

Program RuntimeBackend::record(std::string_view label, const RecordFn& fn) {
  RuntimeCommandList::refuse_while_recording("recording a second Program");
  use_device(device_);
  return Program(std::make_unique<RuntimeProgram>(std::string(label), fn, context_));
}

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
