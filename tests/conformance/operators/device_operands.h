// Operands of operators on a device, for tests that compare bits.
#pragma once

#include <cstdlib>
#include <memory>

#include "backends/conformance/operand_set.h"
#include "backends/registry.h"

namespace foretoken {

/// The device that FORETOKEN_TEST_BACKEND names; null when it names none.
inline std::unique_ptr<GpuBackend> selected_device() {
  const char* selected = std::getenv("FORETOKEN_TEST_BACKEND");
  return selected == nullptr ? nullptr : BackendRegistry::instance().open(selected);
}

/// What `make(OperandMaker&)` makes, in `memory` of a device, with the contents that it gives in host memory with this seed.
template <class Make>
auto make_on_device(Stream& stream, OperandSet& memory, uint64_t seed, const Make& make) {
  OperandSet host;
  host.begin(seed);
  static_cast<void>(make(host));
  memory.begin(seed);
  auto made = make(memory);
  const std::vector<ByteImage> images = host.images();
  for (size_t slot = 0; slot < images.size(); ++slot) stream.upload(images[slot], memory.view(slot));
  return made;
}

/// Memory for `workspace`, which becomes a view of it; nothing when no bytes are needed.
inline Buffer allocate_workspace(GpuBackend& backend, size_t bytes, Tensor& workspace) {
  if (bytes == 0) return {};
  Buffer memory = backend.allocate(bytes);
  workspace = memory.tensor(DType::kU8, {static_cast<int64_t>(bytes)});
  return memory;
}

}  // namespace foretoken
