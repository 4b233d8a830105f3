// A point in the work of a stream: a value of its timeline, and the time when it was reached.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/event.h"
#include "backends/vulkan/vulkan_device.h"

namespace foretoken::vulkan {

class VulkanEvent final : public Event {
 public:
  explicit VulkanEvent(const Device& device);
  /// Waits until no work writes the time any more.
  ~VulkanEvent() override;

  [[nodiscard]] bool is_complete() const override;
  void synchronize() override;
  [[nodiscard]] double elapsed_us(const Event& earlier) const override;

  [[nodiscard]] VkQueryPool queries() const { return queries_.get(); }
  /// The work that writes the time signals `value`.
  void recorded(std::shared_ptr<const Timeline> timeline, uint64_t value);
  /// Null before it was recorded.
  [[nodiscard]] const std::shared_ptr<const Timeline>& timeline() const { return timeline_; }
  [[nodiscard]] uint64_t value() const { return value_; }

 private:
  [[nodiscard]] uint64_t timestamp() const;

  const Device& device_;
  Owned<VkQueryPool> queries_;
  std::shared_ptr<const Timeline> timeline_;  // shared with the stream, which may go first
  uint64_t value_ = 0;
};

}  // namespace foretoken::vulkan
