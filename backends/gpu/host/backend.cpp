#include "backends/gpu/host/backend.h"

#include <string>

#include "backends/adopted_memory.h"
#include "backends/gpu/host/buffer.h"
#include "backends/gpu/host/devices.h"
#include "backends/gpu/host/error.h"
#include "backends/gpu/host/event.h"
#include "backends/gpu/host/program.h"
#include "backends/gpu/host/stream.h"
#include "core/error.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {
namespace {

bool launches_early(int device) {
  bool early = false;
  check(runtime::launches_early(device, early));
  return early;
}

/// All of it must be allocated on `device`, or be managed memory; allocations may follow each other.
void check_memory_of(int device, DeviceAddress address, size_t bytes) {
  const auto refuse = [](std::string expected, std::string got) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "memory to adopt", .expected = std::move(expected), .got = std::move(got)});
  };
  const std::string this_device = std::string(runtime::kName) + ":" + std::to_string(device);
  for (size_t seen = 0; seen < bytes;) {
    runtime::MemoryRange range;
    check(runtime::memory_range(address + seen, device, range));
    if (range.device < 0 && seen == 0) refuse("memory of " + this_device, "memory of no such device");
    if (range.device < 0) refuse(std::to_string(bytes) + " bytes", std::to_string(seen) + ", where the allocation ends");
    if (range.device != device) {
      refuse("memory of " + this_device, "memory of " + std::string(runtime::kName) + ":" + std::to_string(range.device));
    }
    seen += range.bytes;
  }
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

Buffer RuntimeBackend::adopt_memory(const NativeMemory& memory) {
  RuntimeCommandList::refuse_while_recording("adopting memory");
  const DeviceAddress address = memory.handle + memory.offset;
  check_adoptable(memory, address);
  use_device(device_);
  check_memory_of(device_, address, memory.bytes);
  return Buffer(std::make_unique<AdoptedMemory>(address, memory.bytes));
}

std::unique_ptr<Stream> RuntimeBackend::create_stream() {
  RuntimeCommandList::refuse_while_recording("creating a stream");
  return std::make_unique<RuntimeStream>(device_, context_, synchronous_);
}

std::unique_ptr<Stream> RuntimeBackend::adopt_stream(void* native) {
  RuntimeCommandList::refuse_while_recording("adopting a stream");
  return std::make_unique<RuntimeStream>(device_, context_, synchronous_, static_cast<runtime::Stream>(native));
}

std::unique_ptr<Event> RuntimeBackend::create_event() { return std::make_unique<RuntimeEvent>(device_); }

Program RuntimeBackend::record(std::string_view label, const RecordFn& fn) {
  RuntimeCommandList::refuse_while_recording("recording a second Program");
  use_device(device_);
  return Program(std::make_unique<RuntimeProgram>(std::string(label), fn, context_));
}

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
