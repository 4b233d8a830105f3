#include "backends/gpu/host/buffer.h"

#include <algorithm>
#include <string>

#include "backends/gpu/host/error.h"
#include "core/error.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {
namespace {

// An empty buffer has an address of its own too.
constexpr size_t kSmallestAllocation = 256;

[[noreturn]] void throw_out_of_memory(size_t bytes, MemoryKind kind, size_t free_bytes, const std::string& reason) {
  const bool on_device = kind == MemoryKind::kDevice;
  const std::string memory = on_device ? "device memory" : "pinned host memory";
  throw Error(ErrorCode::kOutOfMemory,
              "cannot allocate " + std::to_string(bytes) + " bytes of " + memory +
                  (on_device ? ", " + std::to_string(free_bytes) + " bytes are free" : ", what is free is the host's to say") +
                  (reason.empty() ? "" : ": " + reason));
}

}  // namespace

RuntimeBuffer::RuntimeBuffer(int device, size_t bytes, MemoryKind kind, std::atomic<size_t>& allocated)
    : device_(device), bytes_(bytes), kind_(kind), allocated_(allocated) {
  use_device(device);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  check(runtime::memory_info(free_bytes, total_bytes));
  if (kind == MemoryKind::kDevice && bytes > total_bytes) throw_out_of_memory(bytes, kind, free_bytes, {});
  const size_t wanted = std::max(bytes, kSmallestAllocation);
  const runtime::Result result =
      kind == MemoryKind::kDevice ? runtime::allocate(&data_, wanted) : runtime::allocate_pinned(&data_, wanted);
  if (result.status == runtime::kOutOfMemory) {
    runtime::clear_error();
    throw_out_of_memory(bytes, kind, free_bytes, describe(result.status));
  }
  check(result);
  allocated_.fetch_add(bytes_, std::memory_order_relaxed);
}

RuntimeBuffer::~RuntimeBuffer() {
  check_in_destructor(runtime::set_device(device_));
  check_in_destructor(kind_ == MemoryKind::kDevice ? runtime::free(data_) : runtime::free_pinned(data_));
  allocated_.fetch_sub(bytes_, std::memory_order_relaxed);
}

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
