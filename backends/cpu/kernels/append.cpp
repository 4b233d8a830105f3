#include "backends/cpu/kernels/kernels.h"

namespace foretoken::cpu {

void append(std::vector<KernelEntry>& list, std::span<const KernelEntry> entries) {
  list.insert(list.end(), entries.begin(), entries.end());
}

}  // namespace foretoken::cpu
