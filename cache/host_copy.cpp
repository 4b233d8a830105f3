#include "cache/host_copy.h"

#include "cache/gather_copy.h"

namespace foretoken {

HostCopy::HostCopy(GpuBackend& backend, Stream& stream, std::span<const BufferView> pieces)
    : memory_(backend.allocate(total_bytes(pieces), MemoryKind::kHostVisible)) {
  stream.run([&](CommandList& cmd) { gather(cmd, pieces, memory_.view()); });
  stream.synchronize();
}

void HostCopy::restore(Stream& stream, std::span<const BufferView> pieces) const {
  stream.run([&](CommandList& cmd) { scatter(cmd, memory_.view(), pieces); });
  stream.synchronize();
}

}  // namespace foretoken
