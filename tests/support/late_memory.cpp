#include "tests/support/late_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>

#include "core/error.h"

namespace foretoken::test {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kCapacity = size_t{32} << 30;  // addresses, not memory
constexpr int kPattern = 0xA5;                  // fresh memory holds anything but zeros

size_t pages(size_t bytes) { return std::max<size_t>(1, (bytes + kPage - 1) / kPage) * kPage; }

void check(int status, const char* call) {
  if (status != 0) throw Error(ErrorCode::kDeviceError, std::string(call) + " failed: errno " + std::to_string(errno));
}

}  // namespace

LateMemory::LateMemory() {
  void* range = mmap(nullptr, kCapacity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(range == MAP_FAILED ? -1 : 0, "mmap");
  base_ = static_cast<std::byte*>(range);
  free_.emplace(0, kCapacity);
}

LateMemory::~LateMemory() { munmap(base_, kCapacity); }

std::byte* LateMemory::allocate(size_t bytes) {
  std::byte* data = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    const bool absurd = bytes > kCapacity;
    const size_t wanted = absurd ? 0 : pages(bytes);
    const auto fit =
        absurd ? free_.end() : std::ranges::find_if(free_, [&](const auto& range) { return range.second >= wanted; });
    if (fit == free_.end()) {
      throw Error(ErrorCode::kOutOfMemory,
                  {.what = "cannot allocate memory on the late device",
                   .expected = "at most " + std::to_string(kCapacity - allocated_bytes_) + " bytes, which are free",
                   .got = std::to_string(bytes) + " bytes"});
    }
    const auto [offset, available] = *fit;
    free_.erase(fit);
    if (available > wanted) free_.emplace(offset + wanted, available - wanted);
    allocated_bytes_ += bytes;
    used_end_ = std::max(used_end_, offset + wanted);
    if (num_open_ > 0) protect(true);
    data = base_ + offset;
  }
  const Open open(*this);
  std::memset(data, kPattern, bytes);
  return data;
}

void LateMemory::free(std::byte* data, size_t bytes) {
  const std::scoped_lock lock(mutex_);
  madvise(data, pages(bytes), MADV_DONTNEED);
  allocated_bytes_ -= bytes;
  auto range = free_.emplace(static_cast<size_t>(data - base_), pages(bytes)).first;
  if (const auto next = std::next(range); next != free_.end() && range->first + range->second == next->first) {
    range->second += next->second;
    free_.erase(next);
  }
  if (range == free_.begin()) return;
  const auto previous = std::prev(range);
  if (previous->first + previous->second != range->first) return;
  previous->second += range->second;
  free_.erase(range);
}

size_t LateMemory::allocated_bytes() const {
  const std::scoped_lock lock(mutex_);
  return allocated_bytes_;
}

void LateMemory::protect(bool open) {
  if (used_end_ > 0) check(mprotect(base_, used_end_, open ? PROT_READ | PROT_WRITE : PROT_NONE), "mprotect");
}

LateMemory::Open::Open(LateMemory& memory) : memory_(memory) {
  const std::scoped_lock lock(memory_.mutex_);
  if (memory_.num_open_++ == 0) memory_.protect(true);
}

LateMemory::Open::~Open() {
  const std::scoped_lock lock(memory_.mutex_);
  if (--memory_.num_open_ == 0) memory_.protect(false);
}

}  // namespace foretoken::test
