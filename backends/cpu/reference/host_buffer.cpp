#include "backends/cpu/reference/host_buffer.h"

#include <cstring>

namespace foretoken {
namespace {

constexpr std::align_val_t kAlignment{256};

}  // namespace

HostBuffer::HostBuffer(size_t bytes)
    : bytes_(bytes), data_(static_cast<std::byte*>(::operator new[](bytes > 0 ? bytes : 1, kAlignment))) {
  std::memset(data_.get(), 0, bytes);
}

void HostBuffer::Free::operator()(std::byte* data) const noexcept { ::operator delete[](data, kAlignment); }

}  // namespace foretoken
