#include "backends/vulkan/hazards.h"

#include <algorithm>

namespace foretoken::vulkan {

bool Hazards::add(std::span<const Access> accesses) {
  const auto meets = [this](const Access& access) {
    const uint64_t begin = access.view.address();
    const uint64_t end = begin + access.view.bytes;
    const bool writes = access.mode != AccessMode::kRead;
    return begin < end && std::ranges::any_of(touched_, [&](const Range& range) {
             return (writes || range.written) && begin < range.end && range.begin < end;
           });
  };
  const bool waits = std::ranges::any_of(accesses, meets);
  if (waits) touched_.clear();
  for (const Access& access : accesses) {
    if (access.view.bytes == 0) continue;
    const uint64_t begin = access.view.address();
    touched_.push_back({.begin = begin, .end = begin + access.view.bytes, .written = access.mode != AccessMode::kRead});
  }
  return waits;
}

}  // namespace foretoken::vulkan
