#include "backends/cpu/cpu_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "backends/cpu/cpu_info_limits.h"
#include "core/error.h"
#include "core/log.h"

namespace foretoken::cpu {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

[[noreturn]] void throw_out_of_memory(size_t bytes, uint64_t available) {
  throw Error(ErrorCode::kOutOfMemory, {.what = "cannot allocate memory on the CPU",
                                        .expected = "at most " + std::to_string(available) + " bytes, which are free",
                                        .got = std::to_string(bytes) + " bytes"});
}

size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

/// Maps `bytes` (a multiple of the page) at a multiple of the huge page; null when the system refuses.
std::byte* map_huge(size_t bytes) {
  void* raw = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(raw);
  const size_t head = round_up(reinterpret_cast<uintptr_t>(begin), kHugePage) - reinterpret_cast<uintptr_t>(begin);
  if (head > 0) munmap(begin, head);
  munmap(begin + head + bytes, kHugePage - head);
  std::byte* data = begin + head;
  madvise(data, bytes, MADV_HUGEPAGE);  // a hint: without it the pages are small
#ifdef MADV_POPULATE_WRITE
  if (madvise(data, bytes, MADV_POPULATE_WRITE) != 0 && (errno == ENOMEM || errno == EFAULT)) {
    munmap(data, bytes);
    return nullptr;
  }
#endif
  return data;
}

}  // namespace

CpuBuffer::CpuBuffer(size_t bytes, MemoryKind kind, std::atomic<size_t>& allocated)
    : bytes_(bytes), kind_(kind), allocated_(allocated) {
  if (bytes < kHugePage) {
    data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, round_up(bytes + (bytes == 0), kAlignment)));
  } else {
    const uint64_t available = available_memory_bytes();
    if (bytes > available) throw_out_of_memory(bytes, available);
    mapped_bytes_ = round_up(bytes, kPage);
    data_ = map_huge(mapped_bytes_);
  }
  if (data_ == nullptr) throw_out_of_memory(bytes, available_memory_bytes());
  allocated_.fetch_add(bytes_, std::memory_order_relaxed);
}

CpuBuffer::~CpuBuffer() {
  if (mapped_bytes_ == 0) {
    std::free(data_);
  } else if (munmap(data_, mapped_bytes_) != 0) {
    log().error("munmap of {} bytes failed: errno {}", mapped_bytes_, errno);
  }
  allocated_.fetch_sub(bytes_, std::memory_order_relaxed);
}

}  // namespace foretoken::cpu
