// The backend that refuses everything: the skeleton for a new one. docs/adding-a-backend.md says how to go on from here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace foretoken::null {

/// Does nothing, and says so: whatever would use the device throws Unsupported.
class NullBackend final : public GpuBackend {
 public:
  NullBackend();

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] Buffer allocate(size_t bytes, MemoryKind kind) override;
  [[nodiscard]] Buffer adopt_memory(const NativeMemory& memory) override;
  [[nodiscard]] size_t allocated_bytes() const override { return 0; }
  [[nodiscard]] std::unique_ptr<Stream> create_stream() override;
  [[nodiscard]] std::unique_ptr<Stream> adopt_stream(void* native) override;
  [[nodiscard]] std::unique_ptr<Event> create_event() override;
  [[nodiscard]] Program record(std::string_view label, const RecordFn& fn) override;
  [[nodiscard]] const OpTable& ops() const override { return ops_; }

 private:
  Capabilities capabilities_;
  OpTable ops_;  // empty: no operator runs here
};

/// Finds no device.
class NullProvider final : public BackendProvider {
 public:
  [[nodiscard]] std::string name() const override { return "null"; }
  [[nodiscard]] Availability availability() const override;
  [[nodiscard]] std::vector<Capabilities> devices() const override { return {}; }
  [[nodiscard]] std::unique_ptr<GpuBackend> open(int device_index, const BackendOptions& options) const override;
};

}  // namespace foretoken::null
