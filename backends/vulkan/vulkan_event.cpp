#include "backends/vulkan/vulkan_event.h"

#include <utility>

#include "backends/vulkan/vulkan_command_list.h"
#include "backends/vulkan/vulkan_error.h"
#include "core/error.h"

namespace foretoken::vulkan {

VulkanEvent::VulkanEvent(const Device& device) : device_(device) {
  if (device.limits().timestamp_period == 0.0) return;
  VkQueryPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = 1;
  VkQueryPool pool = VK_NULL_HANDLE;
  check(vkCreateQueryPool(device.get(), &info, nullptr, &pool), "vkCreateQueryPool");
  queries_ = {device.get(), pool};
}

VulkanEvent::~VulkanEvent() { device_.wait_idle(); }

bool VulkanEvent::is_complete() const {
  VulkanCommandList::refuse_while_recording("asking for an event");
  return timeline_ == nullptr || timeline_->reached(value_);
}

void VulkanEvent::synchronize() {
  VulkanCommandList::refuse_while_recording("waiting for an event");
  if (timeline_ != nullptr) timeline_->wait(value_, "work before an event");
}

double VulkanEvent::elapsed_us(const Event& earlier) const {
  const auto* start = dynamic_cast<const VulkanEvent*>(&earlier);
  if (start == nullptr) throw Error(ErrorCode::kInvalidArgument, "elapsed time between events of two backends");
  if (start->timeline_ == nullptr || timeline_ == nullptr) {
    throw Error(ErrorCode::kInvalidState, "elapsed time of an event that was never recorded");
  }
  if (!start->is_complete() || !is_complete()) {
    throw Error(ErrorCode::kInvalidState, "elapsed time of an event that is not complete");
  }
  if (!queries_) throw Error(ErrorCode::kUnsupported, "the compute queue of this Vulkan device has no clock");
  // The counter may be narrower than 64 bits: the difference counts from the middle of its range.
  const uint32_t unused_bits = 64 - device_.limits().timestamp_bits;
  const auto ticks = static_cast<int64_t>((timestamp() - start->timestamp()) << unused_bits) >> unused_bits;
  return static_cast<double>(ticks) * device_.limits().timestamp_period * 1e-3;
}

void VulkanEvent::recorded(std::shared_ptr<const Timeline> timeline, uint64_t value) {
  timeline_ = std::move(timeline);
  value_ = value;
}

uint64_t VulkanEvent::timestamp() const {
  uint64_t ticks = 0;
  check(vkGetQueryPoolResults(device_.get(), queries_.get(), 0, 1, sizeof(ticks), &ticks, sizeof(ticks), VK_QUERY_RESULT_64_BIT),
        "vkGetQueryPoolResults");
  return ticks;
}

}  // namespace foretoken::vulkan
