// A stream: one timeline, and command buffers that are used again when the timeline has passed them.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "backends/stream.h"
#include "backends/vulkan/vulkan_command_list.h"

namespace foretoken::vulkan {

class VulkanStream final : public Stream {
 public:
  /// `context` must outlive the stream. `synchronous`: every launch is waited for, and Programs run launch by launch.
  VulkanStream(const ListContext& context, bool synchronous);
  /// Waits for its work.
  ~VulkanStream() override;

  void run(const RecordFn& fn) override;
  void run(const Program& program) override;
  void upload(std::span<const std::byte> source, const BufferView& destination) override;
  void download(const BufferView& source, std::span<std::byte> destination) override;
  void copy(const BufferView& source, const BufferView& destination) override;
  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override;

 private:
  struct Slot {
    Commands commands;
    uint64_t value;  // of the timeline, when its work has finished
  };
  /// Memory of the host that work on the device reads or writes.
  struct Staged {
    std::unique_ptr<Memory> memory;
    uint64_t value = 0;  // of the timeline, when it may be used again
  };
  struct Wait {
    std::shared_ptr<const Timeline> timeline;
    uint64_t value;
  };

  static constexpr size_t kMaxSlots = 16;
  static constexpr size_t kStagedBytes = size_t{8} << 20;
  static constexpr size_t kRemembered = 4;

  /// A command buffer that is not in use, begun: the last of `slots_`.
  Commands& begin();
  /// Ends and submits what begin() gave.
  void submit_begun(std::string_view work);
  /// Submits a command buffer behind all that came before it.
  void submit(VkCommandBuffer commands, std::string_view work);
  void run_list(const RecordFn& fn, const std::string& owner);
  /// Memory of the host that no work uses any more.
  [[nodiscard]] Memory& free_memory(Staged& staged) const;
  void remember(std::string_view work);
  void wait_for_all();
  [[nodiscard]] std::string recent_work() const;

  const ListContext& context_;
  const Device& device_;
  bool synchronous_;
  std::shared_ptr<Timeline> timeline_;  // shared with events, which may outlive the stream
  uint64_t submitted_ = 0;              // last value promised
  Owned<VkCommandPool> pool_;
  std::deque<Slot> slots_;  // oldest work first
  std::array<Staged, 2> upload_;
  size_t half_ = 0;
  size_t used_ = 0;  // bytes of the present half
  Staged download_;
  std::vector<Wait> waits_;  // of the next submission
  std::array<std::string, kRemembered> recent_;
  size_t num_recent_ = 0;
};

}  // namespace foretoken::vulkan
