#include "backends/backend.h"

#include "core/error.h"

namespace foretoken {

Buffer GpuBackend::adopt_memory(const NativeMemory& /*memory*/) {
  throw Error(ErrorCode::kUnsupported, "backend " + capabilities().backend + " cannot adopt memory of its caller");
}

std::unique_ptr<Stream> GpuBackend::adopt_stream(void* /*native*/) {
  throw Error(ErrorCode::kUnsupported, "backend " + capabilities().backend + " has no streams that a caller could bring");
}

}  // namespace foretoken
