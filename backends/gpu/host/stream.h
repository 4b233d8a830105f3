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
  /// Waits for what is under way: staging memory is in use until then.
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

  /// Refuses the call while this thread records, and makes the device current.
  void enter(std::string_view call) const;
  void remember(std::string_view work);
  void wait_for_all();

  int device_;
  const ListContext& context_;
  bool synchronous_;
  Staging staging_;
  StreamHandle stream_;                          // destroyed before the staging memory
  std::array<std::string, kRemembered> recent_;  // labels of work since the last wait, for errors; empty: none
  size_t num_recent_ = 0;
};

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
