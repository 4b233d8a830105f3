#include "backends/null/null_backend.h"

#include <string_view>

#include "core/error.h"

namespace foretoken::null {
namespace {

constexpr std::string_view kReason = "the null backend has no device: it is the skeleton for new backends";

[[noreturn]] void refuse(std::string_view call) {
  throw Error(ErrorCode::kUnsupported, std::string(call) + ": " + std::string(kReason));
}

class NullEvent final : public Event {
 public:
  [[nodiscard]] bool is_complete() const override { refuse("Event::is_complete"); }
  void synchronize() override { refuse("Event::synchronize"); }
  [[nodiscard]] double elapsed_us(const Event& /*earlier*/) const override { refuse("Event::elapsed_us"); }
};

class NullStream final : public Stream {
 public:
  void run(const RecordFn& /*fn*/) override { refuse("Stream::run"); }
  void run(const Program& /*program*/) override { refuse("Stream::run"); }
  void upload(std::span<const std::byte> /*source*/, const BufferView& /*destination*/) override { refuse("Stream::upload"); }
  void download(const BufferView& /*source*/, std::span<std::byte> /*destination*/) override { refuse("Stream::download"); }
  void copy(const BufferView& /*source*/, const BufferView& /*destination*/) override { refuse("Stream::copy"); }
  void record(Event& /*event*/) override { refuse("Stream::record"); }
  void wait(Event& /*event*/) override { refuse("Stream::wait"); }
  void synchronize() override { refuse("Stream::synchronize"); }
};

}  // namespace

NullBackend::NullBackend() {
  capabilities_.backend = "null";
  capabilities_.device_name = "no device";
  capabilities_.bf16_prefill = Availability::no(std::string(kReason));
}

Buffer NullBackend::allocate(size_t /*bytes*/, MemoryKind /*kind*/) { refuse("GpuBackend::allocate"); }

Buffer NullBackend::adopt_memory(const NativeMemory& /*memory*/) { refuse("GpuBackend::adopt_memory"); }

std::unique_ptr<Stream> NullBackend::create_stream() { return std::make_unique<NullStream>(); }

std::unique_ptr<Stream> NullBackend::adopt_stream(void* /*native*/) { refuse("GpuBackend::adopt_stream"); }

std::unique_ptr<Event> NullBackend::create_event() { return std::make_unique<NullEvent>(); }

Program NullBackend::record(std::string_view /*label*/, const RecordFn& /*fn*/) { refuse("GpuBackend::record"); }

Availability NullProvider::availability() const { return Availability::no(std::string(kReason)); }

std::unique_ptr<GpuBackend> NullProvider::open(int /*device_index*/, const BackendOptions& /*options*/) const {
  refuse("BackendProvider::open");
}

}  // namespace foretoken::null
