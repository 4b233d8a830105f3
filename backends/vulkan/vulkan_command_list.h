// The command list: checks each launch and puts it into a command buffer.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "backends/command_list.h"
#include "backends/launch_checks.h"
#include "backends/vulkan/recorder.h"

namespace foretoken::vulkan {

/// What the lists of one backend share.
struct ListContext {
  const Device& device;
  const PipelineFactory& pipelines;
  const OpTable& ops;
  const Capabilities& capabilities;
};

class VulkanCommandList final : public CommandList, public RefusesWhileRecording<VulkanCommandList> {
 public:
  /// Runs what the command buffer holds, waits for it and begins it anew; `work` names it for errors.
  using RunNow = std::function<void(std::string_view work)>;

  /// A list that records a Program where `records`, else one of a stream. `context` and `commands` outlive the list. `owner` is
  /// what errors call the work ("program 'draft'"). With `run_now` each launch is waited for, so that an error names its kernel.
  VulkanCommandList(const ListContext& context, Commands& commands, bool records, std::string owner, RunNow run_now = nullptr);

  void launch(const KernelCode& code, Grid grid, std::span<const std::byte> params, std::span<const Access> accesses) override;
  void copy(const BufferView& source, const BufferView& destination) override;
  void fill(const BufferView& destination, uint32_t pattern) override;
  void label(std::string_view text) override { label_ = text; }
  [[nodiscard]] bool is_recording() const override { return records_; }
  [[nodiscard]] const OpTable& ops() const override { return context_.ops; }
  [[nodiscard]] const Capabilities& capabilities() const override { return context_.capabilities; }

  [[nodiscard]] size_t num_launches() const { return num_launches_; }

 private:
  /// Counts a launch and, where wanted, waits for it.
  void launched(std::string_view what);

  const ListContext& context_;
  Commands& commands_;
  bool records_;
  std::string owner_;
  RunNow run_now_;
  std::string label_;
  size_t num_launches_ = 0;
};

}  // namespace foretoken::vulkan
