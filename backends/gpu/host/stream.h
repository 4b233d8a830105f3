// A stream of a device.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "backends/gpu/host/command_list.h"
#include "backends/gpu/host/handles.h"
#include "backends/gpu/host/staging.h"
#include "backends/stream.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {

class RuntimeStream final : public Stream {
 public:
  /// `context` outlives the stream. `synchronous`: waits after each launch, and Programs run launch by launch.
  RuntimeStream(int device, const ListContext& context, bool synchronous);
  /// On `adopted`, a stream of the caller that outlives this one. Throws InvalidArgument when it cannot be used with this device,
  /// InvalidState while it is captured. It must not be captured when this one goes: the wait then would spoil the capture.
  RuntimeStream(int device, const ListContext& context, bool synchronous, runtime::Stream adopted);
  /// Waits for what is under way, on a stream of the caller for its last upload: staging memory is in use until then.
  ~RuntimeStream() override;

  void run(const RecordFn& fn) override;
  void run(const Program& program) override;
  void upload(std::span<const std::byte> source, const BufferView& destination) override;
  void download(const BufferView& source, std::span<std::byte> destination) override;
  void copy(const BufferView& source, const BufferView& destination) override;
  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override;

 private:
  static constexpr size_t kRemembered = 4;

  /// Refuses the call while this thread records and while the stream's owner captures it, and makes the device current.
  void enter(std::string_view call) const;
  void remember(std::string_view work);
  void wait_for_all();

  int device_;
  const ListContext& context_;
  bool synchronous_;
  Staging staging_;
  StreamHandle own_;                             // destroyed before the staging memory; null: the stream is the caller's
  runtime::Stream stream_ = nullptr;             // where work goes
  EventHandle uploaded_;                         // of the caller's stream: where its last upload ends
  std::array<std::string, kRemembered> recent_;  // labels of work since the last wait, for errors; empty: none
  size_t num_recent_ = 0;
};

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
