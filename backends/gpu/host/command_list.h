// The command list: puts each launch on a stream. Whether it runs or is captured into a graph is the stream's business.
#pragma once

#include "gpu_runtime.h"

#include <string>
#include <string_view>

#include "backends/command_list.h"
#include "backends/gpu/memory_params.h"
#include "backends/kernel.h"
#include "backends/launch_checks.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {

/// What the lists of one backend share.
struct ListContext {
  const OpTable& ops;
  const Capabilities& capabilities;
  Kernel<gpu::FillParams> fill;
  Kernel<gpu::CopyParams> copy;
  bool programmatic_launch = false;  // kernels may start while the one before ends: they wait for it themselves
};

enum class ListMode : uint8_t {
  kImmediate,
  kSynchronous,  // waits after each launch, so that an error names the kernel that caused it
  kRecording
};

class RuntimeCommandList final : public CommandList, public RefusesWhileRecording<RuntimeCommandList> {
 public:
  /// `context` and `stream` outlive the list. `owner` is what errors call the work ("program 'draft'").
  RuntimeCommandList(const ListContext& context, runtime::Stream stream, ListMode mode, std::string owner);

  void launch(const KernelCode& code, Grid grid, std::span<const std::byte> params, std::span<const Access> accesses) override;
  void copy(const BufferView& source, const BufferView& destination) override;
  void fill(const BufferView& destination, uint32_t pattern) override;
  void label(std::string_view text) override { label_ = text; }
  [[nodiscard]] bool is_recording() const override { return mode_ == ListMode::kRecording; }
  [[nodiscard]] const OpTable& ops() const override { return context_.ops; }
  [[nodiscard]] const Capabilities& capabilities() const override { return context_.capabilities; }

  [[nodiscard]] size_t num_launches() const { return num_launches_; }
  /// Calls enqueue(stream), which puts work of a library of the vendor there; `name` is what errors call it.
  template <class Enqueue>
  void call_library(std::string_view name, const Enqueue& enqueue) {
    enqueue(stream_);
    may_start_early_ = true;
    launched(name);
  }

 private:
  /// Counts a launch and, where wanted, waits for it.
  void launched(std::string_view what);
  [[nodiscard]] std::string where(std::string_view what) const;

  const ListContext& context_;
  runtime::Stream stream_;
  ListMode mode_;
  std::string owner_;
  std::string label_;
  bool may_start_early_ = false;  // the launch before, of this list, made no weights
  size_t num_launches_ = 0;
};

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
